import { test } from "vitest";
import { newSession } from "../support/accounts.ts";
import { call, expectOk, expectRefusal } from "../support/http.ts";
import { enroll } from "../support/totp.ts";

const enrollUnnamed = (bearer: string, extra: Record<string, unknown> = {}) =>
  call("POST /factors", { bearer, body: { factor_type: "totp", ...extra } });

test("a user cannot have two factors without a friendly name, since two empty names count as equal", async () => {
  const { accessToken } = await newSession();
  expectOk(await enrollUnnamed(accessToken));
  expectRefusal(await enrollUnnamed(accessToken), 422, "mfa_factor_name_conflict");
  expectRefusal(await enrollUnnamed(accessToken, { friendly_name: "" }), 422, "mfa_factor_name_conflict");
});

test("factors with different names, or unnamed factors of different users, do not conflict", async () => {
  const { accessToken } = await newSession();
  expectOk(await enrollUnnamed(accessToken));
  await enroll(accessToken, "tablet");
  await enroll((await newSession()).accessToken);
});
