// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/handlers.hpp"

#include <fmt/format.h>

#include "opal/btl/endpoint.hpp"
#include "opal/core/log.hpp"

namespace opal::btl {

Result<void> HandlerTable::set(Tag tag, const Handler& handler) {
  if (!is_tag(tag) || handler.fn == nullptr) {
    return Error{Errc::invalid_argument, 0, "register handler: tag 0 and 0xffff are reserved, a function is needed",
                 tag};
  }
  std::unique_ptr<Page>& page = pages_[tag >> 8];
  if (page == nullptr) page = std::make_unique<Page>();
  Handler& entry = (*page)[tag & 0xff];
  if (entry.fn != nullptr) return Error{Errc::limit_reached, 0, "register handler: the tag has one already", tag};
  entry = handler;
  return {};
}

void HandlerTable::clear(Tag tag) noexcept {
  if (Page* page = pages_[tag >> 8].get(); page != nullptr) (*page)[tag & 0xff] = Handler{};
}

void HandlerTable::report_unwanted(const Delivery& delivery) noexcept {
  log::once(log::Level::warn, fmt::format("unwanted tag {}", delivery.tag), "btl",
            "message from {} with tag {:#06x}, which has no handler, dropped", to_string(delivery.from.peer()),
            delivery.tag);
}

}  // namespace opal::btl
