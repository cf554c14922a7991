import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { hashTokenOfLink } from "./invitations.ts";

const token = "a".repeat(43);
const hash = createHash("sha256").update(token).digest("hex");

test.each([
  [`/invitation?token=${token}`, hash],
  [`/invitation?token=${token}&from=mail#top`, hash],
  [`/invitation?token=${token}a`, null],
  ["/invitation", null],
  [`/workspaces?token=${token}`, null],
  ["", null],
])("reads the token of the link %s", (path, expected) => {
  expect(hashTokenOfLink(path)).toBe(expected);
});
