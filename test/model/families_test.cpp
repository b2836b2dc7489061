// Every family of models against the reference.
#include "support/model_check.h"
#include "support/random_model.h"
#include "support/test.h"

using namespace lathe;

TEST_CASE("every family computes what the reference does, whole, in parts and after other texts") {
  for (const std::string& family : test::random_families()) test::check_family(family);
}
