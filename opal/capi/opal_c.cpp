// SPDX-License-Identifier: Apache-2.0
// The C ABI: nothing but translation.  Opaque handles are the C++ objects' addresses.
#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/am/memory/registered_pool.hpp"
#include "opal/capi/internal.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/gpu/gpu.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/mpool/pool.hpp"

using opal::ByteSpan;
using opal::Errc;
using opal::Error;
using opal::Post;

using namespace opal::capi;

namespace {

thread_local std::string last_error;

struct UserHandler {
  std::uint16_t tag;
  opal_handler_fn fn;
  opal_allocate_fn allocate;
  opal_release_fn release;
  void* user;
  void on_message(opal::btl::Delivery& delivery) noexcept {
    fn(user, handle_of(opal::am::sender(delivery)), delivery.data.data(), delivery.data.size());
  }
  [[nodiscard]] opal::am::BufferSource buffers() noexcept {
    return {.allocate =
                [](void* self, opal::am::Endpoint& from, opal::Tag tag, ByteSpan header, std::size_t size) noexcept {
                  auto& handler = *static_cast<UserHandler*>(self);
                  return static_cast<std::byte*>(
                      handler.allocate(handler.user, handle_of(from), tag, header.data(), header.size(), size));
                },
            .release =
                [](void* self, std::byte* buffer) noexcept {
                  auto& handler = *static_cast<UserHandler*>(self);
                  if (handler.release != nullptr) handler.release(handler.user, buffer);
                },
            .object = this};
  }
};

}  // namespace

struct opal_region {
  opal_context* context;
  opal::am::Region region;
  std::map<void*, opal::Mapping> unregistered{};  // of an address space; under the context's mutex
};

struct opal_context final : opal::am::Observer {
  opal_context_options_t options{};
  std::vector<std::pair<std::string, std::string>> settings;
  std::mutex mutex;  // of handlers, regions and their `unregistered`; a thread that holds it does not take the
                     // context's own lock
  std::list<UserHandler> handlers;  // stable addresses
  std::list<opal_region> regions;
  std::mutex pools_mutex;
  std::map<std::string, std::unique_ptr<opal::mpool::Pool>, std::less<>> pools;  // by hint; of opal_mem_alloc
  std::unique_ptr<opal::am::Context>
      context;  // its callbacks use the members above; ~opal_context() ends regions and pools before it

  ~opal_context() override {
    regions.clear();
    pools.clear();  // a RegisteredPool uses the context
    context.reset();
  }
  void on_peer_connected(opal::am::Endpoint& peer) noexcept override {
    if (options.on_peer_connected != nullptr) options.on_peer_connected(options.user, handle_of(peer), OPAL_OK);
  }
  void on_peer_failed(opal::am::Endpoint& peer, const Error& why) noexcept override {
    if (options.on_peer_failed != nullptr) options.on_peer_failed(options.user, handle_of(peer), to_status(why.code));
  }
};

namespace {

/// The pool that serves a hint, opened by its first block.  It stays.  The caller takes blocks without pools_mutex,
/// since that may take the context's own lock.
opal::Result<opal::mpool::Pool*> pool_for(opal_context& context, std::string_view hint) {
  const std::lock_guard lock{context.pools_mutex};
  if (const auto found = context.pools.find(hint); found != context.pools.end()) return found->second.get();
  std::unique_ptr<opal::mpool::Pool> made;
  if (hint == "registered") {
    OPAL_TRY_ASSIGN(made, opal::am::RegisteredPool::open(*context.context));
  } else {
    OPAL_TRY_ASSIGN(const auto config, settings_of(context).load(opal::mpool::kGroup));
    OPAL_TRY_ASSIGN(made, opal::mpool::open(hint, config));
  }
  return context.pools.emplace(hint, std::move(made)).first->second.get();
}

opal_status_t add_handler(opal_context& context, const UserHandler& handler) noexcept {
  std::list<UserHandler> added{handler};
  UserHandler& kept = added.front();
  const opal::btl::Handler bound = opal::btl::bind<&UserHandler::on_message>(kept, "user");
  const auto set = kept.allocate != nullptr ? context.context->set_handler(kept.tag, bound, kept.buffers())
                                            : context.context->set_handler(kept.tag, bound);
  if (!set) return fail(set.error());
  const std::lock_guard guard{context.mutex};
  context.handlers.splice(context.handlers.end(), added);
  return OPAL_OK;
}

opal_status_t add_region(opal_context& context, opal::Result<opal::am::Region> made, opal_region_t** region) noexcept {
  if (!made) return fail(made.error());
  const std::lock_guard guard{context.mutex};
  *region = &context.regions.emplace_back(opal_region{&context, std::move(*made)});
  return OPAL_OK;
}

/// Connects by `how`, a member function of Context.  `missing`: the error if an argument is null.
template <auto how>
opal_status_t connect(opal_context_t* context, const void* address, size_t size, opal_endpoint_t** peer,
                      const char* missing) noexcept {
  if (context == nullptr || address == nullptr || peer == nullptr) return misuse(missing);
  auto result = (context->context.get()->*how)(bytes(address, size));
  if (!result) return fail(result.error());
  *peer = handle_of(**result);
  return OPAL_OK;
}

/// Copies as much of `from` as fits, and a NUL.
void copy_text(std::string_view from, char* text, std::size_t size) noexcept {
  if (text != nullptr && size != 0) text[from.copy(text, size - 1)] = '\0';
}

}  // namespace

opal::am::Context& opal::capi::context_of(opal_context_t& handle) noexcept { return *handle.context; }

opal::config::Store opal::capi::settings_of(const opal_context_t& handle) {
  auto store = opal::config::Store::from_environment();
  for (const auto& [name, value] : handle.settings) store.set(name, value);
  return store;
}

opal_status_t opal::capi::fail(const Error& error) noexcept {
  last_error = to_string(error);
  return to_status(error.code);
}

opal_status_t opal::capi::misuse(const char* where) noexcept { return fail({Errc::invalid_argument, 0, where}); }

extern "C" {

const char* opal_status_name(opal_status_t status) noexcept {
  if (status == OPAL_OK) return "ok";
  if (status == OPAL_QUEUED) return "queued";
  if (status == OPAL_AGAIN) return "again";
  return status < 0 && status >= OPAL_ERR_INTERNAL ? opal::name(static_cast<Errc>(-status)) : "unknown";
}

const char* opal_last_error(void) noexcept { return last_error.c_str(); }

const char* opal_version(void) noexcept { return OPAL_VERSION_STRING; }

opal_status_t opal_context_open(const opal_context_options_t* options, opal_context_t** context) noexcept {
  if (context == nullptr) return misuse("opal_context_open: nowhere to put the context");
  auto opened = std::make_unique<opal_context>();
  if (options != nullptr) {
    if (options->struct_size < offsetof(opal_context_options_t, on_peer_connected)) {
      return misuse("opal_context_open: options.struct_size is not set; use OPAL_INIT");
    }
    std::memcpy(&opened->options, options, std::min<std::size_t>(options->struct_size, sizeof *options));
    if (options->thread_level > OPAL_THREAD_MULTIPLE) {
      return misuse("opal_context_open: thread_level is OPAL_THREAD_SINGLE or OPAL_THREAD_MULTIPLE");
    }
    if (is_missing(opened->options.settings, opened->options.setting_count) ||
        is_missing(opened->options.secret, opened->options.secret_size)) {
      return misuse("opal_context_open: settings or secret is NULL and its size is not 0");
    }
  }
  opal::am::Options am_options;
  am_options.threads = opened->options.thread_level == OPAL_THREAD_MULTIPLE ? opal::am::ThreadLevel::multiple
                                                                            : opal::am::ThreadLevel::single;
  am_options.observer = opened.get();
  for (std::size_t i = 0; i < opened->options.setting_count; ++i) {
    const opal_setting_t& setting = opened->options.settings[i];
    if (setting.name == nullptr || setting.value == nullptr) {
      return misuse("opal_context_open: a setting has no name or no value");
    }
    opened->settings.emplace_back(setting.name, setting.value);
  }
  if (opened->options.secret != nullptr) {
    auto secret =
        opal::Secret::from_text({static_cast<const char*>(opened->options.secret), opened->options.secret_size});
    if (!secret) return fail(secret.error());
    am_options.secret = *secret;
  }
  auto result = opal::am::Context::open(settings_of(*opened), am_options);
  if (!result) return fail(result.error());
  opened->context = std::move(*result);
  *context = opened.release();
  return OPAL_OK;
}

void opal_context_close(opal_context_t* context) noexcept { const std::unique_ptr<opal_context> end{context}; }

void opal_context_address(const opal_context_t* context, const void** address, size_t* size) noexcept {
  if (context == nullptr || address == nullptr || size == nullptr) return;
  *address = context->context->address().data();
  *size = context->context->address().size();
}

opal_status_t opal_connect(opal_context_t* context, const void* address, size_t size, opal_endpoint_t** peer) noexcept {
  return connect<&opal::am::Context::connect>(
      context, address, size, peer,
      "opal_connect: a context, an address, and somewhere to put the endpoint are needed");
}

opal_status_t opal_connect_async(opal_context_t* context, const void* address, size_t size,
                                 opal_endpoint_t** peer) noexcept {
  return connect<&opal::am::Context::connect_async>(
      context, address, size, peer,
      "opal_connect_async: a context, an address, and somewhere to put the endpoint are needed");
}

int opal_endpoint_connected(const opal_endpoint_t* peer) noexcept {
  return peer != nullptr && endpoint(peer).connected() ? 1 : 0;
}

void opal_disconnect(opal_endpoint_t* peer) noexcept {
  if (peer != nullptr) endpoint(peer).context().disconnect(endpoint(peer));
}

opal_status_t opal_listen(opal_context_t* context, const char* host_port, char* where, size_t where_size) noexcept {
  if (context == nullptr || host_port == nullptr) {
    return misuse("opal_listen: a context and \"host:port\" are needed");
  }
  auto result = context->context->listen(host_port);
  if (!result) return fail(result.error());
  copy_text(*result, where, where_size);
  return OPAL_OK;
}

opal_status_t opal_connect_to(opal_context_t* context, const char* host_port, int timeout_ms,
                              opal_endpoint_t** peer) noexcept {
  if (context == nullptr || host_port == nullptr || peer == nullptr) {
    return misuse("opal_connect_to: a context, \"host:port\", and somewhere to put the endpoint are needed");
  }
  auto result = context->context->connect_to(host_port, std::chrono::milliseconds{timeout_ms});
  if (!result) {
    const opal_status_t status = fail(result.error());
    last_error = std::string{"connect_to "} + host_port + ": " + last_error;
    return status;
  }
  *peer = handle_of(**result);
  return OPAL_OK;
}

size_t opal_endpoint_explain(const opal_endpoint_t* peer, char* text, size_t size) noexcept {
  if (peer == nullptr) return 0;
  const std::string explanation = endpoint(peer).explain();
  copy_text(explanation, text, size);
  return explanation.size();
}

size_t opal_endpoint_max_send(const opal_endpoint_t* peer) noexcept {
  return peer != nullptr ? endpoint(peer).attributes().max_send : 0;
}

void opal_endpoint_set_user(opal_endpoint_t* peer, void* user) noexcept {
  if (peer != nullptr) endpoint(peer).upper = user;
}
void* opal_endpoint_user(const opal_endpoint_t* peer) noexcept {
  return peer != nullptr ? endpoint(peer).upper : nullptr;
}

opal_status_t opal_set_handler(opal_context_t* context, uint16_t tag, opal_handler_fn handler, void* user) noexcept {
  if (context == nullptr || handler == nullptr || !opal::kUserTags.contains(tag)) {
    return misuse(
        "opal_set_handler: a context, a function and a tag from OPAL_TAG_USER_FIRST to OPAL_TAG_USER_LAST are needed");
  }
  return add_handler(*context, {tag, handler, nullptr, nullptr, user});
}

opal_status_t opal_set_handler_with_buffers(opal_context_t* context, uint16_t tag, opal_handler_fn handler,
                                            opal_allocate_fn allocate, opal_release_fn release, void* user) noexcept {
  if (context == nullptr || handler == nullptr || allocate == nullptr || !opal::kUserTags.contains(tag)) {
    return misuse(
        "opal_set_handler_with_buffers: a context, two functions and a tag from OPAL_TAG_USER_FIRST to "
        "OPAL_TAG_USER_LAST "
        "are needed");
  }
  return add_handler(*context, {tag, handler, allocate, release, user});
}

void opal_clear_handler(opal_context_t* context, uint16_t tag) noexcept {
  if (context == nullptr || !opal::kUserTags.contains(tag)) return;
  context->context->clear_handler(tag);  // afterwards no other thread runs the handler
  const std::lock_guard guard{context->mutex};
  // Keep a handler with a BufferSource: a message in flight may still use one of its buffers.
  context->handlers.remove_if(
      [tag](const UserHandler& entry) { return entry.tag == tag && entry.allocate == nullptr; });
}

opal_status_t opal_register(opal_context_t* context, void* base, uint64_t size, uint32_t rights,
                            opal_region_t** region) noexcept {
  if (context == nullptr || region == nullptr || is_missing(base, size) ||
      (rights & ~static_cast<std::uint32_t>(OPAL_REMOTE_ALL)) != 0) {
    return misuse("opal_register: a context, memory, OPAL_REMOTE_* rights, and somewhere to put the region are needed");
  }
  return add_region(*context, context->context->register_memory(base, size, static_cast<opal::Rights>(rights)), region);
}

void opal_deregister(opal_region_t* region) noexcept {
  if (region == nullptr) return;
  std::list<opal_region> removed;  // destroyed, and so deregistered, after the mutex is released
  const std::lock_guard guard{region->context->mutex};
  auto& regions = region->context->regions;
  const auto place = std::find_if(regions.begin(), regions.end(), [&](const auto& entry) { return &entry == region; });
  if (place != regions.end()) removed.splice(removed.end(), regions, place);
}

int opal_query_cuda_support(void) noexcept { return opal::gpu::active() ? 1 : 0; }

void opal_memory_released(const void* address, size_t size) noexcept {
  opal::memory::released(opal::memory::Range::pages(reinterpret_cast<std::uintptr_t>(address), size));
}

void opal_region_key(const opal_region_t* region, const void** key, size_t* size) noexcept {
  if (region == nullptr || key == nullptr || size == nullptr) return;
  *key = region->region.key().data();
  *size = region->region.key().size();
}

opal_status_t opal_register_address_space(opal_context_t* context, uint32_t rights, opal_region_t** region) noexcept {
  if (context == nullptr || region == nullptr || (rights & ~static_cast<std::uint32_t>(OPAL_REMOTE_ALL)) != 0) {
    return misuse(
        "opal_register_address_space: a context, OPAL_REMOTE_* rights, and somewhere to put the region are needed");
  }
  return add_region(*context, context->context->register_address_space(static_cast<opal::Rights>(rights)), region);
}

opal_status_t opal_exclude(opal_region_t* address_space, const void* address, size_t size, int excluded) noexcept {
  if (address_space == nullptr || !address_space->region.is_address_space() || is_missing(address, size)) {
    return misuse("opal_exclude: a region of opal_register_address_space and memory are needed");
  }
  if (excluded != 0) {
    address_space->region.exclude(address, size);
  } else {
    address_space->region.include(address, size);
  }
  return OPAL_OK;
}

opal_status_t opal_map_unregistered(opal_region_t* address_space, size_t size, void** memory) noexcept {
  if (address_space == nullptr || !address_space->region.is_address_space() || size == 0 || memory == nullptr) {
    return misuse(
        "opal_map_unregistered: a region of opal_register_address_space, a size, and somewhere to put the address are "
        "needed");
  }
  auto mapped = address_space->region.map_unregistered(size);
  if (!mapped) return fail(mapped.error());
  *memory = mapped->data();
  const std::lock_guard guard{address_space->context->mutex};
  address_space->unregistered.emplace(*memory, std::move(*mapped));
  return OPAL_OK;
}

opal_status_t opal_unmap_unregistered(opal_region_t* address_space, void* memory) noexcept {
  if (address_space == nullptr) return misuse("opal_unmap_unregistered: a region is needed");
  decltype(address_space->unregistered)::node_type ended;  // unmapped without the mutex
  const std::lock_guard guard{address_space->context->mutex};
  ended = address_space->unregistered.extract(memory);
  if (ended.empty()) return misuse("opal_unmap_unregistered: not memory of opal_map_unregistered");
  return OPAL_OK;
}

opal_status_t opal_mem_alloc(opal_context_t* context, size_t size, size_t alignment, const char* hint,
                             void** memory) noexcept {
  if (context == nullptr || memory == nullptr || size == 0) {
    return misuse("opal_mem_alloc: a context, a size, and somewhere to put the address are needed");
  }
  auto pool = pool_for(*context, hint != nullptr ? hint : "heap");
  if (!pool) return fail(pool.error());
  const auto block = (*pool)->allocate(size, alignment != 0 ? alignment : 1);
  if (!block) return fail(block.error());
  *memory = *block;
  return OPAL_OK;
}

opal_status_t opal_mem_free(opal_context_t* context, void* memory) noexcept {
  if (context == nullptr) return misuse("opal_mem_free: a context is needed");
  if (memory == nullptr) return OPAL_OK;
  std::vector<opal::mpool::Pool*> pools;
  {
    const std::lock_guard lock{context->pools_mutex};
    for (const auto& [hint, pool] : context->pools) pools.push_back(pool.get());
  }
  for (opal::mpool::Pool* pool : pools) {
    if (pool->deallocate(static_cast<std::byte*>(memory))) return OPAL_OK;
  }
  return misuse("opal_mem_free: not memory of this context's opal_mem_alloc, or freed already");
}

void opal_batch_begin(opal_context_t* context) noexcept {
  if (context != nullptr) context->context->begin_batch();
}

void opal_batch_end(opal_context_t* context) noexcept {
  if (context != nullptr) context->context->end_batch();
}

size_t opal_context_progress(opal_context_t* context) noexcept {
  return context != nullptr ? context->context->progress() : 0;
}

size_t opal_wait(opal_context_t* context, int timeout_ms) noexcept {
  return context != nullptr ? context->context->wait(std::chrono::milliseconds{timeout_ms}) : 0;
}

int opal_wait_until(opal_context_t* context, int (*condition)(void* user), void* user, int timeout_ms) noexcept {
  if (context == nullptr || condition == nullptr) return 0;
  const auto holds = [=]() noexcept { return condition(user) != 0; };
  return context->context->wait_until(holds, std::chrono::milliseconds{timeout_ms}) ? 1 : 0;
}

int opal_fd(const opal_context_t* context) noexcept { return context != nullptr ? context->context->fd() : -1; }

int opal_arm(opal_context_t* context) noexcept { return context != nullptr && context->context->arm() ? 1 : 0; }

}  // extern "C"
