/* SPDX-License-Identifier: Apache-2.0 */
/* tests/capi/check.h -- how a test in C tells GoogleTest how it went: each is a function that returns NULL, or what did
 * not hold, and where. */
#ifndef OPAL_TESTS_CAPI_CHECK_H
#define OPAL_TESTS_CAPI_CHECK_H

#define CAPI_TEXT_(x) #x
#define CAPI_TEXT(x) CAPI_TEXT_(x)
#define CHECK(condition) \
  if (!(condition)) return __FILE__ ":" CAPI_TEXT(__LINE__) ": " #condition

#ifdef __cplusplus
extern "C" {
#endif
/* X(name, sentence) for every test. */
#define CAPI_TESTS(X)                                                  \
  X(capi_messages, MessagesCarryHeaderAndPayloadAndKnowTheirSender)    \
  X(capi_queue, SendOrQueueKeepsWhatDoesNotFit)                        \
  X(capi_put_get, PutGetAndAtomicReachTheMiddleOfARegion)              \
  X(capi_stale, ADeregisteredRegionIsRefused)                          \
  X(capi_memory, AllocatedMemoryIsAlignedReachableByPeersAndFreedOnce) \
  X(capi_address_space, OneKeyReachesWhateverIsMappedAndNotExcluded)   \
  X(capi_handlers, HandlersAreOnePerTagAndCanBeTakenAway)              \
  X(capi_large, AMessageOfAnySizeArrivesAndCompletes)                  \
  X(capi_buffers, LargeMessagesArriveInBuffersOfTheProgram)            \
  X(capi_counter, QueuedOperationsAreCounted)                          \
  X(capi_entries, AQueueHasOneEntryForEachOperation)                   \
  X(capi_notify, ANotificationFollowsItsData)                          \
  X(capi_iov, AMessageInPartsArrivesInOnePiece)                        \
  X(capi_async, ConnectingReturnsAtOnceAndCallbacksMayDisconnect)      \
  X(capi_settings, VariablesAndTheSecretAreGivenByTheProgram)          \
  X(capi_listen, ListenAndConnectToFindEachOther)                      \
  X(capi_waiting, WaitingByTimeConditionAndDescriptor)                 \
  X(capi_endings, ClosingAndDisconnectingEndWhatIsPending)             \
  X(capi_missing, MissingArgumentsAreRefusedWithAReason)               \
  X(capi_wrong, WrongArgumentsAreRefusedWithAReason)                   \
  X(capi_options, OptionsOfOlderAndNewerProgramsAreRead)               \
  X(capi_checkpoint, ACheckpointHoldsMessagesAndEmptiesTheCaches)      \
  X(capi_names, EveryStatusHasItsName)
#define CAPI_DECLARE(function, sentence) const char* function(void);
CAPI_TESTS(CAPI_DECLARE)
#ifdef __cplusplus
}
#endif
#endif
