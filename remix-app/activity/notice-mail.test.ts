import { expect, test } from "vitest";
import { eventKinds } from "./event-kinds.ts";
import { eventMail, type NoticeEvent } from "./notice-mail.ts";

const event: NoticeEvent = {
  kind: "sign_in",
  method: "password",
  device: "evil.example on Windows",
  browser: "Chrome on Linux",
  address: "192.0.2.1",
  details: {},
  when: new Date(0),
  unconfirmed: false,
};
const site = { origin: "https://gatehouse.example", product: "Gatehouse" };
const addressed = { to: "ada@example.com", site };

test("keeps a name in a notice email on one line, without paragraphs or links", () => {
  const details = { workspace: "Acme\n\nYour account is locked. Unlock it: https://evil.example" };
  const { text } = eventMail({ ...event, kind: "workspace_handed_over", details }, addressed);
  expect(text.split("\n")).toContain(
    "Workspace: Acme Your account is locked. Unlock it: https:\u200A/\u200A/evil.\u200Aexample",
  );
  expect(text.split("\n\n").filter((paragraph) => paragraph.startsWith("Your account is locked"))).toEqual([]);
});

test("does not turn the device or the address in a notice email into a link", () => {
  const { text } = eventMail(event, addressed);
  expect(text).toContain("Device: evil.\u200Aexample on Windows\nIP address: 192.\u200A0.\u200A2.\u200A1");
  expect(text).toContain("https://gatehouse.example/settings/security");
});

test("the subject of a sign-in email names the browser only if the browser is known", () => {
  expect(eventMail(event, addressed).subject).toBe("New sign-in from Chrome on Linux");
  for (const browser of ["Unknown device", "Unknown browser on Linux"]) {
    expect(eventMail({ ...event, browser }, addressed).subject).toBe("New sign-in to your Gatehouse account");
  }
});

test("gives each notice email one button, the next step and the configured product name", () => {
  const named = { to: "ada@example.com", site: { ...site, product: "Acme" } };
  for (const kind of Object.keys(eventKinds)) {
    const { subject, text } = eventMail({ ...event, kind }, named);
    expect(text.match(/^Review security settings:\nhttps:\/\/gatehouse\.example\/settings\/security$/gm)).toHaveLength(
      1,
    );
    expect(text).toMatch(/\n\nIf (it wasn’t|you didn’t ask for this), /);
    expect(`${subject}\n${text}`).not.toMatch(/\{product\}|Gatehouse/);
  }
});

test("omits the device and address from an email about an administrator's action", () => {
  const { subject, text } = eventMail({ ...event, kind: "mfa_required" }, addressed);
  expect(subject).toBe("Your Gatehouse account now requires a second factor");
  expect(text).not.toMatch(/Device:|IP address:/);
});

test("an email about an administrator's act has its reason and times, and no other details", () => {
  const details = { reason: "Spam: see https://evil.example", until: "2026-12-07T09:05:31Z", admin: "Ada" };
  const { text } = eventMail({ ...event, kind: "account_banned", details }, addressed);
  expect(text).toContain(
    "Reason: Spam: see https:\u200A/\u200A/evil.\u200Aexample\nUntil: 7 Dec 2026, 09:05 UTC\nWhen:",
  );
  expect(text).not.toContain("Ada");
  const due = { reason: "Left", deletion: "2026-12-07T09:05:31Z" };
  const scheduled = eventMail({ ...event, kind: "deletion_requested", details: due }, addressed);
  expect(scheduled.text).toContain("Deletion: 7 Dec 2026, 09:05 UTC");
});

test("the email about a provider that an app linked doesn’t say that it signs in, and says what the owner has to do", () => {
  const linked = { ...event, kind: "identity_linked", details: { provider: "Google" } };
  const unconfirmed = eventMail({ ...linked, unconfirmed: true }, addressed).text;
  expect(unconfirmed).not.toContain("You can now sign in");
  expect(unconfirmed).toContain("until you confirm it under Review account access");
  expect(eventMail(linked, addressed).text).toContain("You can now sign in");
});

test("the email about an unconfirmed sign-in method asks the owner to confirm it, and doesn’t say that nothing needs to be done", () => {
  const added = { ...event, kind: "passkey_added", details: { passkey: "Phone" } };
  const unconfirmed = eventMail({ ...added, unconfirmed: true }, addressed).text;
  expect(unconfirmed).toContain("added by an app, without confirming your identity");
  expect(unconfirmed).toContain("If this was you, confirm it in your security settings.");
  expect(unconfirmed).not.toContain("you don’t need to do anything");
  const confirmed = eventMail(added, addressed).text;
  expect(confirmed).not.toContain("confirm");
  expect(confirmed).toContain("you don’t need to do anything");
});

test("still writes an email about a kind of event that only a later version knows", () => {
  const { subject, text } = eventMail({ ...event, kind: "phone_added" }, addressed);
  expect(subject).toBe("Your Gatehouse account was changed");
  expect(text).toMatch(/^phone added\.\n\nWhen:/);
});
