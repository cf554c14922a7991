import { expect, test } from "vitest";
import { noticeMail } from "./notice-mail.ts";

test("what others have named is one line of the mail, and no paragraph of ours", () => {
  const { text } = noticeMail({
    to: "ada@example.com",
    subject: "You handed a workspace over",
    what: "A workspace that you owned has another owner now.",
    details: { workspace: "Acme\n\nYour account is locked. Unlock it: https://evil.example" },
    when: new Date(0),
    device: "Firefox on Windows",
    address: "192.0.2.1",
    origin: "https://gatehouse.example",
  });
  expect(text.split("\n")).toContain("Workspace: Acme Your account is locked. Unlock it: https://evil.example");
  expect(text.split("\n\n").filter((paragraph) => paragraph.startsWith("Your account is locked"))).toEqual([]);
});
