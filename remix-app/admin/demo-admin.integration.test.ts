import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";

const halfMinuteMs = 30_000;
/** How long a code must still be valid, so that a busy machine can use the code in time. */
const leastLeftMs = 10_000;

test.each([
  { role: "admin", page: "/admin" },
  { role: "finance", page: "/admin/books" },
])(
  "signs the demo account with the role $role in to $page with the authenticator secret of the local stack",
  async (demo) => {
    const person = readStack().users.find(({ role }) => role === demo.role);
    if (!person?.totpSecret) throw new Error(`the stack names no authenticator of the demo ${demo.role}`);
    const browser = await signIn({ id: "", ...person }, { returnUrl: demo.page });
    const mfa = `/mfa?returnUrl=${encodeURIComponent(demo.page)}`;
    expect(browser.location).toBe(mfa);
    const [, factorId = ""] = /name="factorId" value="([0-9a-f-]+)"/.exec((await browser.get("/mfa")).text) ?? [];
    // Uses the code of the previous half-minute, in case someone is using the current code by hand. The previous code is
    // valid until the current half-minute ends.
    const leftMs = halfMinuteMs - (Date.now() % halfMinuteMs);
    if (leftMs < leastLeftMs) await sleep(leftMs);
    const fields = { factorId, code: codeOf({ secret: person.totpSecret }, -1) };
    expect((await browser.post(mfa, fields)).location).toBe(demo.page);
    expect((await browser.get(demo.page)).status).toBe(200);
  },
);
