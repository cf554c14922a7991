import { expect, test } from "vitest";
import { stepUpPurpose } from "./step-up-purpose.ts";

test.each([
  ["/workspaces/7c9e6679/ai/keys/new", "create an API key"],
  ["/workspaces/7c9e6679/ai/keys/1/rotate?from=list", "replace an API key"],
  ["/workspaces/7c9e6679/ai/keys/1/edit", "edit an API key"],
  ["/workspaces/7c9e6679/ai/envelopes?new", "set a task limit"],
  ["/workspaces/7c9e6679/ai/envelopes/1", "raise a task limit"],
  ["/settings/security/passkeys/new", "add a passkey"],
  ["/settings/security/export", "download your data"],
  ["/device?user_code=BCDF-GHJK", "connect a device"],
  ["/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity%2Fpassword", "add an authenticator app"],
  ["/settings/security#sessions", "change your security settings"],
  ["/", "continue"],
])("the step-up before %s is for: %s", (destination, purpose) => {
  expect(stepUpPurpose(destination)).toBe(purpose);
});
