import { expect, test } from "vitest";
import { mailBody } from "../../mail/mail-body.ts";
import { agentRequestMail } from "./agent-mail.ts";

const site = { origin: "https://gatehouse.example", product: "Gatehouse", accent: "#035e63" };

test("the email about an agent's request links only to the keys of its workspace", () => {
  const mail = agentRequestMail({ workspaceId: "w-1", tool: "codex", host: "https://evil.example/a" }, site);
  expect(mail.text).toContain("Agent: Codex on ");
  const links = mailBody(mail, site).html.match(/href="[^"]*"/g);
  expect(links).toEqual(['href="https://gatehouse.example/workspaces/w-1/ai/keys"']);
});
