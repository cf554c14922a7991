import { expect, test } from "vitest";
import { eventMail, type ToldEvent } from "./notice-mail.ts";

const told: ToldEvent = {
  kind: "sign_in",
  method: "password",
  device: "evil.example on Windows",
  address: "192.0.2.1",
  details: {},
  when: new Date(0),
  unconfirmed: false,
};
const addressed = { to: "ada@example.com", origin: "https://gatehouse.example" };

test("a name in a notice is one line, starts no paragraph and becomes no link", () => {
  const details = { workspace: "Acme\n\nYour account is locked. Unlock it: https://evil.example" };
  const { text } = eventMail({ ...told, kind: "workspace_handed_over", details }, addressed);
  expect(text.split("\n")).toContain(
    "Workspace: Acme Your account is locked. Unlock it: https:\u200A/\u200A/evil.\u200Aexample",
  );
  expect(text.split("\n\n").filter((paragraph) => paragraph.startsWith("Your account is locked"))).toEqual([]);
});

test("the device and the address that a notice names become no links", () => {
  const { text } = eventMail(told, addressed);
  expect(text).toContain("Device: evil.\u200Aexample on Windows\nAddress: 192.\u200A0.\u200A2.\u200A1");
  expect(text).toContain("https://gatehouse.example/settings/security");
});

test("a mail about what an administrator did names neither device nor address", () => {
  const { subject, text } = eventMail({ ...told, kind: "mfa_required" }, addressed);
  expect(subject).toBe("Your account now needs a second factor");
  expect(text).not.toMatch(/Device:|Address:/);
});

test("a mail about an unconfirmed addition says so", () => {
  const added = { ...told, kind: "passkey_added", details: { passkey: "Phone" } };
  expect(eventMail({ ...added, unconfirmed: true }, addressed).text).toContain("unconfirmed");
  expect(eventMail(added, addressed).text).not.toContain("unconfirmed");
});

test("a kind of a later version still makes a mail that says what happened", () => {
  const { subject, text } = eventMail({ ...told, kind: "phone_added" }, addressed);
  expect(subject).toBe("Your account was changed");
  expect(text).toMatch(/^phone added\.\n\nWhen:/);
});
