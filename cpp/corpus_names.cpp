#include "corpus_names.hpp"

#include <algorithm>
#include <iterator>

namespace gnomon {
namespace {

using std::string_view;

// names.CLASS_END
constexpr string_view kClassEnds[] = {
    "Client",   "Factory",     "Connection", "Command",     "Reader",   "Writer",     "Manager",   "Builder",
    "Handler",  "Provider",    "Adapter",    "Pool",        "Driver",   "Listener",   "Context",   "Session",
    "Service",  "Impl",        "Statement",  "Transaction", "Policy",   "Interface",  "ResultSet", "Iterator",
    "Callback", "Interceptor", "Visitor",    "Parser",      "Template", "Repository", "Exception", "Error"};

NameVerdict shaped(NameGroup group, bool spelled, string_view name) {
    if (group == NameGroup::snake || group == NameGroup::upper) return NameVerdict::identifier;
    if (!spelled) return NameVerdict::nothing;
    if (group != NameGroup::pascal) return NameVerdict::identifier;
    const bool ends = std::any_of(std::begin(kClassEnds), std::end(kClassEnds),
                                  [&](string_view end) { return name.ends_with(end); });
    return ends ? NameVerdict::klass : NameVerdict::identifier;
}

// Whether what is near says nothing of names of this group, where their shape says nothing either: a "."
// behind them makes a file at most.
bool near_other(NameGroup group, const NamePlace& place) {
    if (place.spelled || place.sign == '(' || place.sign == '=') return false;
    if (group == NameGroup::pascal)
        return !place.linked && (place.near & (kNearFunction | kNearPackage | kNearClass)) == 0;
    return group == NameGroup::upper && (place.near & (kNearError | kNearPackage | kNearOption)) == 0;
}

}  // namespace

NameGroup name_group(string_view group) {
    if (group == "snake") return NameGroup::snake;
    if (group == "camel") return NameGroup::camel;
    if (group == "pascal") return NameGroup::pascal;
    if (group == "upper") return NameGroup::upper;
    if (group == "mixed") return NameGroup::mixed;
    if (group == "method") return NameGroup::method;
    if (group == "assigned") return NameGroup::assigned;
    return NameGroup::other;
}

NameVerdict judge_name(NameGroup group, const NamePlace& place, string_view name) {
    if (group == NameGroup::other) return NameVerdict::ask;
    if (group == NameGroup::assigned)
        return place.code && !place.source ? NameVerdict::ask : NameVerdict::nothing;
    if (place.titled) return NameVerdict::nothing;
    if (place.code || group == NameGroup::method) {
        if (place.code && group == NameGroup::upper && place.sign == '=') return NameVerdict::ask;
        return place.sign == '(' ? NameVerdict::ask : NameVerdict::nothing;
    }
    if (place.near != 0) return near_other(group, place) ? NameVerdict::nothing : NameVerdict::ask;
    if (group == NameGroup::upper) return place.spelled ? NameVerdict::ask : NameVerdict::nothing;
    if (place.linked) return NameVerdict::ask;
    return shaped(group, place.spelled, name);
}

}  // namespace gnomon
