// The execution provider that a bundle was made for, `runtime.provider` of the manifest: appended to a
// session's options.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "embedder/bundle.h"
#include "encoder/ort.h"
#include "gpu/driver.h"

namespace embed {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Provider {
    std::string name, append_as, library, directory;
    Settings options, session;
    int optimization = 0;
    WantedDevice device;
    std::vector<std::string> libraries;
    size_t batch_size = 0, largest_batch = 0;

    // A code of 4 for a manifest that names one wrongly.
    Error open(const Bundle &bundle, const Json &said);
    // The options with a real folder for "{cache}", which `folders` lists; where none can be made, without
    // what is kept there. A code of 9 where the user named one.
    Error settle(Settings &settled, std::vector<std::string> &folders) const;
};

// The functions of the C API that providers take. `error` is what ONNX Runtime answers, null for none.
struct ProviderApi {
    // The first version of the table that tells which provider got which node.
    static constexpr uint32_t VERSION = 24;
    void *const *table = nullptr;
    template <class... Arguments> OrtStatus *call(int slot, Arguments... arguments) const {
        return reinterpret_cast<OrtStatus *(*)(Arguments...)>(table[slot])(arguments...);
    }
    // Puts the provider first. `missing`: none of this device's is the provider's.
    OrtStatus *append(const Provider &provider, const Settings &settled, OrtEnv *env,
                      OrtSessionOptions *options, bool &missing) const;
    OrtStatus *create_session(const OrtEnv *env, const char *model, const OrtSessionOptions *options,
                              OrtSession **session) const;
    // Nodes of a session's graph by the name of the provider that runs them.
    OrtStatus *assignment(const OrtSession *session, std::map<std::string, size_t> &nodes) const;

private:
    OrtStatus *append_cuda(const Settings &settled, OrtSessionOptions *options) const;
    OrtStatus *append_plugin(const Provider &provider, const Settings &settled, OrtEnv *env,
                             OrtSessionOptions *options, bool &missing) const;
};

// A sentence and a hint for what ONNX Runtime said of a GPU; a code of 9.
Error explain(const std::string &said);

}  // namespace embed
