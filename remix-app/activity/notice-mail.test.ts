import { expect, test } from "vitest";
import { newSignInMail, noticeMail } from "./notice-mail.ts";

const place = {
  to: "ada@example.com",
  when: new Date(0),
  device: "evil.example on Windows",
  address: "192.0.2.1",
  origin: "https://gatehouse.example",
};

test("a name in a notice is one line, starts no paragraph and becomes no link", () => {
  const { text } = noticeMail({
    ...place,
    subject: "You handed a workspace over",
    what: "A workspace that you owned has another owner now.",
    details: { workspace: "Acme\n\nYour account is locked. Unlock it: https://evil.example" },
  });
  expect(text.split("\n")).toContain(
    "Workspace: Acme Your account is locked. Unlock it: https:\u200A/\u200A/evil.\u200Aexample",
  );
  expect(text.split("\n\n").filter((paragraph) => paragraph.startsWith("Your account is locked"))).toEqual([]);
});

test("the device and the address that a notice names become no links", () => {
  const { text } = newSignInMail({ ...place, method: "password" });
  expect(text).toContain("Device: evil.\u200Aexample on Windows\nAddress: 192.\u200A0.\u200A2.\u200A1");
  expect(text).toContain("https://gatehouse.example/settings/security");
});
