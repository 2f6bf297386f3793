// A project outside refx: the installed headers and library are all it sees.
#include <refx/refx.h>

#include <iostream>

int main() {
  std::cout << refx::registry().size() << " transformations\n";
  return refx::registry().empty() ? 1 : 0;
}
