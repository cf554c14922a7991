import { quoteText } from "../../mail/inert-text.ts";
import type { Mail, MailSite } from "../../mail/mail-body.ts";
import { mailText } from "../../mail/mail-text.ts";
import { agentNames, type NewConnection } from "./agent-schema.ts";

/**
 * Writes the email that tells key managers about a member's request. Omits names, which the linked page shows only to
 * people who may see them.
 */
export function agentRequestMail(
  { workspaceId, tool, host }: { workspaceId: string } & Pick<NewConnection, "tool" | "host">,
  { origin, product }: Pick<MailSite, "origin" | "product">,
): Omit<Mail, "to"> {
  return {
    subject: "A member requests access for a coding agent",
    text: mailText({
      news: [`A member of one of your workspaces on ${product} wants to connect a coding agent.`],
      facts: [["Agent", `${agentNames[tool]} on ${quoteText(host)}`]],
      action: { label: "Review request", url: `${origin}/workspaces/${workspaceId}/ai/keys` },
      more: [
        "The request shows the member and the workspace. If you approve it, the member’s agents get API keys that expire after 8 hours.",
      ],
      footer: ["You’re getting this email because you manage API keys in that workspace."],
    }),
  };
}
