import { expect, test } from "vitest";
import { lockSentence } from "./labels.ts";

const until = "2026-11-30T19:18:55Z";
const limit = {
  kind: "limit",
  until: null,
  action: "password",
  scope: "pair",
  used: 9,
  attempts: 10,
  perSeconds: 900,
  whenEmpty: "refuse",
} as const;

test.each([
  [{ kind: "ban", until } as const, "The account is banned"],
  [{ kind: "codes", wrong: 1, until: null } as const, "1 wrong recovery email code"],
  [{ kind: "codes", wrong: 5, until } as const, "Recovery email codes are locked"],
  [
    { kind: "block", until, blockId: "b", address: "2001:db8::/64" } as const,
    "The IP address 2001:db8::/64 is blocked",
  ],
  [limit, "9 of 10 passwords in 15 minutes from one IP address, then refused"],
  [
    { ...limit, scope: "account", attempts: 20, perSeconds: 3_600, whenEmpty: "challenge" },
    "9 of 20 passwords an hour, then a bot challenge",
  ],
  [
    { ...limit, scope: "account_cap", attempts: 100, perSeconds: 7_200, whenEmpty: "refuse_new" },
    "9 of 100 passwords in 2 hours, then refused without a bot challenge",
  ],
  [
    { ...limit, action: "later_kind", whenEmpty: "later" },
    "9 of 10 later kind attempts in 15 minutes from one IP address, later",
  ],
])("%j is described as “%s”", (lock, sentence) => {
  expect(lockSentence(lock)).toBe(sentence);
});
