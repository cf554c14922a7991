import { expect, test } from "vitest";
import { startDataApi } from "../testing/data-api-answers.ts";
import { revokeOverride, sendRecovery } from "./recovery.ts";

const change = {
  admin: { id: "admin", email: "admin@example.com", sessionId: "session" },
  overrideId: crypto.randomUUID(),
  reason: "They called",
};
const issued = { email: "ada@example.com", credentialId: crypto.randomUUID() };

test.each([
  ["does not work if it was invalidated", { invalidate_recovery_credential: null }, "so its link and code don’t work"],
  ["may work if invalidating it got no answer", {}, "its link and code may work"],
])("says that a recovery email that was not sent %s", async (_, answers, message) => {
  const { context, close } = await startDataApi({ issue_recovery_credential: issued, ...answers });
  const result = await sendRecovery(context, change);
  expect(result).toMatchObject({ outcome: "refused", status: 503, message: expect.stringContaining(message) });
  await close();
});

test("does not report a change that was refused for a reason of a later version", async () => {
  const { context, close } = await startDataApi({ revoke_recovery_override: { refused: "new" } });
  expect(await revokeOverride(context, change)).toMatchObject({ outcome: "refused", status: 409 });
  await close();
});
