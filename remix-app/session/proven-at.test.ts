import { expect, test } from "vitest";
import { getLastProofTime } from "./user.ts";

const password = { method: "password", timestamp: 1_000 };
const totp = { method: "totp", timestamp: 2_000 };

test.each([
  { what: "a password", amr: [password], enrolled: false, second: 1_000 },
  {
    what: "a newer sign-in",
    amr: [{ method: "oauth", timestamp: 3_000 }, password],
    enrolled: false,
    second: 3_000,
  },
  { what: "a code", amr: [totp, password], enrolled: true, second: 2_000 },
  {
    what: "a code that is older than the sign-in",
    amr: [{ method: "password", timestamp: 9_000 }, totp],
    enrolled: true,
    second: 2_000,
  },
  { what: "an enrolled authenticator but no code yet", amr: [password], enrolled: true, second: 0 },
  { what: "a code from a removed authenticator", amr: [totp, password], enrolled: false, second: 1_000 },
  { what: "nothing", amr: [], enrolled: false, second: 0 },
])("in a session with $what, the identity was last confirmed at second $second", ({ amr, enrolled, second }) => {
  expect(getLastProofTime(amr, { enrolled }).getTime()).toBe(second * 1_000);
});
