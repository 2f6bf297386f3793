// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refx/editor.h"
#include "refx/error.h"
#include "refx/export.h"
#include "refx/reverse.h"

namespace refx {

// A place that looks right, and why it is left alone.
struct Refusal {
  Site site;
  std::string reason;
};
struct Findings {
  std::vector<Site> sites;
  std::vector<Refusal> refusals;
};

enum class Reverse { no, yes };

// What a transformation did.
struct Outcome {
  std::vector<StepId> steps;
  std::vector<Refusal> refusals;
  Reversal reversal;
  std::optional<Model> copy;  // the result, where the input was to stay untouched
};

// Which sites to rewrite, by glob patterns (* and ?). A pattern matches a site by its name, or by
// the path of a module, tensor or node that it would rewrite, see Site::paths. The path of a module
// stands for everything in it: "encoder.0" matches "encoder.0.query".
struct REFX_API SiteFilter {
  std::vector<std::string> only = {};  // empty: all
  std::vector<std::string> except = {};
  bool empty() const { return only.empty() && except.empty(); }
  bool accepts(const Site& site) const;
};

// A pattern of a filter that matches nothing: one of `only` no site, neither one that is there nor
// one that is refused or was rewritten; one of `except` nothing in the model.
class REFX_API UnmatchedPattern : public Error {
 public:
  enum class Of { only, except };
  UnmatchedPattern(Of of, const std::string& pattern, const std::string& nearest);
  Of of() const { return of_; }
  // "'quary' matches no site; did you mean 'query'?"; the hint stands where no name is near.
  std::string problem(const std::string& hint) const;

 private:
  Of of_;
  std::string problem_, suggestion_;
};

// A rewrite rule: finds its sites without changing anything, and applies one through the Editor.
// Undo, redo, logging and validation come with it.
class REFX_API Transformation {
 public:
  virtual ~Transformation() = default;

  virtual std::string name() const = 0;  // "merge-linears"
  virtual std::string summary() const { return ""; }
  virtual Kwargs parameters() const { return {}; }
  virtual bool preserves_computation() const { return false; }
  // Whether `all` applies it. Others are applied by name, and tried by tune().
  virtual bool in_all() const { return preserves_computation(); }
  virtual bool reversible() const { return false; }

  // All legality is decided here. Sites may overlap; the second of two is found again afterwards.
  // They need no names: find_sites() gives them.
  virtual Findings find(const Model& model) const = 0;
  virtual void apply(Editor& editor, const Site& site) const = 0;
  // For one whose apply() reads all weights anyway: the same, without what can be told only of
  // their values. There apply() throws Refused, for the reason that find() has.
  virtual Findings find_to_apply(const Model& model) const { return find(model); }
  // Whether applying sites never makes another one: then one look is enough.
  virtual bool settles() const { return false; }

  // Applies every site until none is left; or reverses every step of this transformation.
  virtual Outcome operator()(Model& model, Reverse direction = Reverse::no) const;

  // Name and parameters: the same in every process.
  std::string signature() const;

  // Marks are kept by the model's history: applied steps set them, reversed ones take them back.
  void mark_as_transformed(Model& model, NodeId node) const;
  void mark_as_restored(Model& model, NodeId node) const;
  bool transformed(const Model& model, NodeId node) const;
  std::vector<NodeId> get_transformed_nodes(const Model& model) const;
};

class REFX_API ReversibleTransformation : public Transformation {
 public:
  bool reversible() const override { return true; }
};

// The sites of the graph, and those in the branches and loops of it.
REFX_API Findings find_sites(const Model& model, const Transformation& transformation);

// Applies the sites that the filter accepts. Throws UnmatchedPattern, and changes nothing, where a
// pattern matches nothing.
REFX_API Outcome apply(Model& model, const Transformation& transformation,
                       const SiteFilter& filter = {});

}  // namespace refx
