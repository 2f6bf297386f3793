// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refx/editor.h"
#include "refx/error.h"
#include "refx/export.h"
#include "refx/reason.h"
#include "refx/reverse.h"

namespace refx {

// A site that matches the pattern of a transformation but must not be rewritten, and why.
struct Refusal {
  Site site;
  Reason reason;
  // The nodes that the reason is about: those of the site, unless it names others.
  const std::vector<NodeId>& nodes() const {
    return reason.nodes.empty() ? site.nodes : reason.nodes;
  }
};
struct REFX_API Findings {
  std::vector<Site> sites;
  std::vector<Refusal> refusals;
  // Adds a site, or a refusal if there is a reason. Returns whether it is a site.
  bool add(Site site, std::optional<Reason> reason);
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
  std::vector<std::string> site = {};     // patterns of the sites to rewrite; empty: all
  std::vector<std::string> exclude = {};  // patterns of the sites to leave alone
  bool empty() const { return site.empty() && exclude.empty(); }
  bool accepts(const Site& candidate) const;
};

// A pattern of a filter that matches nothing. One in `site` must match a site: one that was found,
// was refused or has been rewritten. One in `exclude` must match anything in the model.
class REFX_API UnmatchedPattern : public Error {
 public:
  enum class Of { site, exclude };
  UnmatchedPattern(Of of, const std::string& pattern, const std::string& nearest);
  Of of() const { return of_; }
  // "'quary' matches no site; did you mean 'query'?"; ends with the hint if no name is similar.
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
  // Whether the rewritten model computes the same up to rounding. Each step records it; verify()
  // holds exact steps to rounding and approximate ones to a budget.
  virtual Numerics numerics() const { return Numerics::approximate; }
  bool preserves_computation() const { return numerics() == Numerics::preserved; }
  // Whether `all` applies it. Others are applied by name, and tried by tune().
  virtual bool in_all() const { return preserves_computation(); }
  virtual bool reversible() const { return false; }

  // Decides where the transformation is legal. Sites may overlap; the second of two is found again
  // afterwards. They need no names: find_sites() gives them.
  virtual Findings find(const Model& model) const = 0;
  // Rewrites one site that find() returned. Returns nullopt when it is done; a reason if only the
  // attempt shows that it is not possible: then the edits are rolled back, and nothing is changed.
  virtual std::optional<Reason> apply(Editor& editor, const Site& site) const = 0;
  // Whether applying the sites of one search never creates another site.
  virtual bool reaches_fixpoint_in_one_pass() const { return false; }

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
