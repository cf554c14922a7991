import { expect, test } from "vitest";
import { mailBody } from "../mail/mail-body.ts";
import { invitationMail } from "./invitation-mail.ts";

const origin = "https://gatehouse.example";
const site = { origin, product: "Gatehouse", accent: "#035e63" };

test("an invitation links only to its own page, and its subject contains no names", () => {
  const inviter = { displayName: "Claim $500 at https://evil.example", email: "billing@evil.example" };
  const workspace = { name: `evil.example/login\n\nOr here: ${origin}/logout` };
  const mail = invitationMail({ to: "ada@example.com", inviter, workspace, token: "t0ken" }, site);
  expect(mail.subject).toBe("You’re invited to a workspace on Gatehouse");
  const { text, html } = mailBody(mail, site);
  expect(html.match(/href="[^"]*"/g)).toEqual([`href="${origin}/invitation?token=t0ken"`]);
  const around = text.replace(`${origin}/invitation?token=t0ken`, "");
  expect(around).not.toMatch(/\/\/|evil\.example|@evil|gatehouse\.example/);
  expect(around.replaceAll("\u200A", "")).toContain("Claim $500 at https://evil.example (billing@evil.example)");
});

test("an invitation from a person without a display name shows their email", () => {
  const mail = invitationMail(
    {
      to: "ada@example.com",
      inviter: { displayName: null, email: "grace@example.com" },
      workspace: { name: "Orbit" },
      token: "t",
    },
    site,
  );
  expect(mail.text.replaceAll("\u200A", "")).toMatch(
    /^grace@example\.com invited you to join the workspace “Orbit” on Gatehouse\./,
  );
});
