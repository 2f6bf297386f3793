#include "commands.h"
#include "refx/error.h"
namespace refx::cli {
int tune(const TuneOptions&) { throw Error("not yet"); }
}
