// The device guard and the accelerator's hooks of a CUDA that is not there: devices are numbers, there is one
// stream, events hold nothing. Autograd needs both to run its threads for tensors that are on "cuda:i".
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {
constexpr auto kind = c10::DeviceType::CUDA;
constexpr c10::DeviceIndex most = 16;  // autograd starts a thread for each
thread_local c10::DeviceIndex card = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kind;
  c10::DeviceType type() const override { return kind; }
  c10::Device exchangeDevice(c10::Device to) const override {
    auto before = card;
    card = to.index();
    return {kind, before};
  }
  c10::Device getDevice() const override { return {kind, card}; }
  void setDevice(c10::Device to) const override { card = to.index(); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { card = to.index(); }
  c10::Stream getStream(c10::Device of) const override { return c10::Stream(c10::Stream::DEFAULT, of); }
  c10::Stream getNewStream(c10::Device of, int) const override { return c10::Stream(c10::Stream::DEFAULT, of); }
  c10::Stream exchangeStream(c10::Stream to) const override { return c10::Stream(c10::Stream::DEFAULT, to.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return most; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)
}  // namespace

namespace at {
struct CUDAHooks final : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return most; }
  DeviceIndex current_device() const override { return card; }
  DeviceIndex getCurrentDevice() const override { return card; }
  void setCurrentDevice(DeviceIndex to) const override { card = to; }
  DeviceIndex exchangeDevice(DeviceIndex to) const override { return std::exchange(card, to); }
  DeviceIndex maybeExchangeDevice(DeviceIndex to) const override { return std::exchange(card, to); }
  void deviceSynchronize(DeviceIndex) const override {}
};
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at

extern "C" int current_card() { return card; }
extern "C" void set_current_card(int to) { card = static_cast<c10::DeviceIndex>(to); }
