// What a name in the text of a chunk is, as far as its place and shape say so: the rest is asked for.
#pragma once
#include <cstdint>
#include <string_view>

#include "corpus_words.hpp"

namespace gnomon {

// What stands beside a name, as bits: the patterns of gnomon.corpus.names that may match there,
// FUNCTION_NOUN, ERROR_NOUN and OPTION_NOUN behind it, PACKAGE_BEFORE, CLASS_BEFORE and NOUN_BEFORE before
// it, by the first and last two letters of their words; and "(", "=" or "." right behind. None where
// `stands_plain`.
enum Near : unsigned {
    kNearFunction = 1,
    kNearError = 2,
    kNearOption = 4,
    kNearPackage = 8,
    kNearClass = 16,
    kNearNoun = 32,
    kNearSign = 64,
};
unsigned near_of(TextView text, RawSpan span);

// The groups of gnomon.corpus.names.TOKEN that a verdict looks at; all others are `other`.
enum class NameGroup { snake, camel, pascal, upper, mixed, method, assigned, other };
NameGroup name_group(std::string_view group);

struct NamePlace {
    bool code;      // in a block of code
    bool source;    // the document is source code
    bool titled;    // where a heading defines something
    bool spelled;   // in a span of code
    bool linked;    // in the text of a link
    unsigned near;  // bits of Near
    char sign;      // right behind, "\0" for none or another letter than ASCII
};

// Nothing, a type by itself, or what only the patterns of gnomon.corpus.mentions can say.
enum class NameVerdict { nothing, identifier, klass, ask };

// As Finder._kind and Finder._plain_kind; `name` in UTF-8.
NameVerdict judge_name(NameGroup group, const NamePlace& place, std::string_view name);

}  // namespace gnomon
