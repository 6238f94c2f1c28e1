// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/secret.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "opal/core/system/fd.hpp"

namespace opal {
namespace {

/// Initialises libsodium.  Aborts if the system has no random source, because no secret is safe then.
void prepare() noexcept {
  static const bool ready = ::sodium_init() >= 0;
  if (!ready) std::abort();
}

const unsigned char* raw(const void* bytes) noexcept { return static_cast<const unsigned char*>(bytes); }

class Hash {
 public:
  explicit Hash(ByteSpan key) noexcept {
    prepare();
    ::crypto_generichash_init(&state_, raw(key.data()), key.size(), sizeof(Proof));
  }
  void add(ByteSpan bytes) noexcept { ::crypto_generichash_update(&state_, raw(bytes.data()), bytes.size()); }
  /// Adds the length first, so that no purpose is a prefix of another one.
  void add(std::string_view purpose) noexcept {
    add(bytes_of(purpose.size()));
    add(std::as_bytes(std::span{purpose}));
  }
  template <class T>
  T finish() noexcept {
    T result;
    ::crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(result.data()), result.size());
    return result;
  }

 private:
  crypto_generichash_state state_;
};

}  // namespace

Nonce fresh_nonce() noexcept {
  prepare();
  Nonce nonce;
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Secret::~Secret() { ::sodium_memzero(key_.data(), key_.size()); }

std::string Secret::random_text() {
  prepare();
  std::array<unsigned char, 32> bytes;
  ::randombytes_buf(bytes.data(), bytes.size());
  std::string text(2 * bytes.size() + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

Result<Secret> Secret::from_text(std::string_view text) {
  if (text.size() < kLeastText) return Error{Errc::invalid_argument, 0, "secret: shorter than 16 bytes", text.size()};
  if (text.size() > kMostText) return Error{Errc::invalid_argument, 0, "secret: longer than 4096 bytes", text.size()};
  Hash hash{{}};
  hash.add("opal secret from text");
  hash.add(std::as_bytes(std::span{text}));
  Secret secret;
  secret.key_ = hash.finish<decltype(secret.key_)>();
  return secret;
}

Result<std::string> Secret::read_file(const std::string& path) {
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return Error{errno == EACCES ? Errc::permission : Errc::os, errno, "open(secret file)"};
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return Error{Errc::os, errno, "fstat(secret file)"};
  if (!S_ISREG(about.st_mode)) return Error{Errc::invalid_argument, 0, "secret file: not a regular file"};
  if ((about.st_uid != ::geteuid() && about.st_uid != 0) || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{Errc::permission, 0, "secret file: others may read or write it; chmod 600", about.st_mode & 0777U};
  }
  std::string text(kMostText + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::os, errno, "read(secret file)"};
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Secret Secret::derive(std::string_view purpose, ByteSpan detail) const noexcept {
  Secret derived;
  derived.key_ = prove(purpose, {detail});
  return derived;
}

Proof Secret::prove(std::string_view purpose, std::initializer_list<ByteSpan> parts) const noexcept {
  Hash hash{key_};
  hash.add(purpose);
  for (const ByteSpan part : parts) hash.add(part);
  return hash.finish<Proof>();
}

bool same(const Proof& a, const Proof& b) noexcept { return ::sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace opal
