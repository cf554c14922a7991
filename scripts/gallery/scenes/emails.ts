import { quoteHtml, renderTemplate } from "@gatehousehq/local-stack/services/identity/core/mail-template";
import { eventMail, type NoticeEvent } from "../../../remix-app/activity/notice-mail.ts";
import { accountInvitationMail, accountRemovedMail } from "../../../remix-app/admin/account-mail.ts";
import { defaultAccent, defaultName } from "../../../remix-app/config/brand.ts";
import { type Mail, mailBody } from "../../../remix-app/mail/mail-body.ts";
import { recoveryMail } from "../../../remix-app/recovery/recovery-mail.ts";
import { agentRequestMail } from "../../../remix-app/studio/agents/agent-mail.ts";
import { type BudgetAlert, budgetAlertMail } from "../../../remix-app/studio/budgets/budget-alert-mail.ts";
import { type CreditAlert, creditAlertMail } from "../../../remix-app/studio/credits/credit-alert-mail.ts";
import { approvalAnswerMail, approvalRequestMail } from "../../../remix-app/studio/keys/approval-mail.ts";
import { outageMail } from "../../../remix-app/studio/providers/outage-mail.ts";
import { invitationMail } from "../../../remix-app/workspaces/invitation-mail.ts";
import { backendEmails } from "../../operator/email-templates/backend-emails.ts";
import type { State } from "../define-states.ts";

const site = { origin: "https://app.example.com", product: defaultName, accent: defaultAccent };
const acme = { ...site, product: "Northwind", accent: "#7c2d92" };
const to = "lea@example.com";

const event: NoticeEvent = {
  kind: "sign_in",
  method: "password",
  device: "Chrome on Linux",
  browser: "Chrome on Linux",
  address: "2001:db8:7:7::1",
  details: {},
  when: new Date("2026-11-28T09:05:31Z"),
  unconfirmed: false,
};
const invitation = {
  to,
  inviter: { email: "grace.hopper@example.com", displayName: "Grace Hopper" },
  workspace: { name: "Rear Admiral's compiler team" },
  token: "3q2-7wAAAADerb7vAAAAAN6tvu8AAAAA3q2-7wAAAAA",
};
const budget = {
  scope: "workspace",
  period: "month",
  timeZone: "UTC",
  subjectId: "w",
  subject: "Orbit",
  workspaceId: "0b4c7b0e-9d6b-4f2e-8a3c-2f6a5f3f4c11",
  workspace: "Orbit",
  month: "2026-11-01",
  endsAt: "2026-12-01T00:00:00.000Z",
  threshold: 80,
  enforced: true,
  limitUsd: "250",
  refusing: false,
  spentUsd: "201.480000000001",
  reservedUsd: "0.5",
  leftUsd: "48.019999999999",
} satisfies BudgetAlert;
const credits: CreditAlert = {
  accountId: "a3bb189e-8bf9-3888-9912-ace4e6543002",
  payer: "workspace",
  workspaceId: budget.workspaceId,
  workspace: "Orbit",
  level: "low",
  crossedAt: "2026-11-27T10:00:00.000000Z",
  balance: "99.00000001",
  reserved: "12",
  available: "87.00000001",
  threshold: "100",
};
const outage = {
  id: credits.accountId,
  provider: "openai",
  beganAt: "2026-11-30T09:12:04.000Z",
  failure: "server_error",
  status: 503,
  routes: [
    { model: "gpt-5.2", endpoint: "chat" },
    { model: "text-embedding-3-large", endpoint: "embeddings" },
  ],
} as const;
const callers = { calls: 15, answeredElsewhere: 12, failed: [{ status: 502, code: "provider_error", calls: 3 }] };
const answer = { workspaceId: budget.workspaceId, workspaceName: "Orbit", declineReason: null };

const ours: readonly [name: string, module: string, mail: Pick<Mail, "subject" | "text">, sender?: typeof site][] = [
  ["New sign-in", "activity/notice-mail.ts", eventMail(event, { to, site })],
  [
    "A passkey was added by an app",
    "activity/notice-mail.ts",
    eventMail({ ...event, kind: "passkey_added", details: { passkey: "YubiKey 5C" }, unconfirmed: true }, { to, site }),
  ],
  [
    "A second factor is required",
    "activity/notice-mail.ts",
    eventMail({ ...event, kind: "mfa_required" }, { to, site }),
  ],
  [
    "An account is banned",
    "activity/notice-mail.ts",
    eventMail(
      {
        ...event,
        kind: "account_banned",
        details: { reason: "Sent spam to other customers", until: "2026-12-07T09:05:31Z" },
      },
      { to, site },
    ),
  ],
  [
    "An account’s deletion is scheduled",
    "activity/notice-mail.ts",
    eventMail(
      {
        ...event,
        kind: "deletion_requested",
        details: { reason: "Asked for it by phone, ticket 4711", deletion: "2026-12-07T09:05:31Z" },
      },
      { to, site },
    ),
  ],
  ["An account is deleted", "admin/account-mail.ts", accountRemovedMail({ to }, site)],
  ["Invitation to the platform", "admin/account-mail.ts", accountInvitationMail({ to, id: credits.accountId }, site)],
  ["Invitation", "workspaces/invitation-mail.ts", invitationMail(invitation, site)],
  ["Invitation, another brand", "workspaces/invitation-mail.ts", invitationMail(invitation, acme), acme],
  ["Recovery", "recovery/recovery-mail.ts", recoveryMail({ to, token: invitation.token, code: "048213" }, site)],
  ["Budget at 80%", "studio/budgets/budget-alert-mail.ts", budgetAlertMail(budget, site)],
  [
    "Budget used up",
    "studio/budgets/budget-alert-mail.ts",
    budgetAlertMail({ ...budget, threshold: 100, refusing: true, scope: "key", subject: "Nightly summaries" }, site),
  ],
  [
    "Task limit used up",
    "studio/budgets/budget-alert-mail.ts",
    budgetAlertMail(
      {
        ...budget,
        scope: "envelope",
        period: "total",
        subject: "ticket-4711",
        owner: "Nightly summaries",
        threshold: 100,
        refusing: true,
        limitUsd: "5",
        spentUsd: "4.91",
        reservedUsd: "0",
        leftUsd: "0.09",
        maxCalls: 200,
        calls: 61,
      },
      site,
    ),
  ],
  ["Credits low", "studio/credits/credit-alert-mail.ts", creditAlertMail(credits, site)],
  ["Provider fails", "studio/providers/outage-mail.ts", outageMail({ ...outage, kind: "began", callers }, site)],
  [
    "Provider works again",
    "studio/providers/outage-mail.ts",
    outageMail({ ...outage, kind: "ended", endedAt: "2026-11-30T09:44:34.000Z", ending: "answered" }, site),
  ],
  [
    "Approval requested",
    "studio/keys/approval-mail.ts",
    approvalRequestMail({ requester: to, workspaceName: "Orbit", note: "Nightly summaries of support tickets" }, site),
  ],
  [
    "Coding agent requested",
    "studio/agents/agent-mail.ts",
    agentRequestMail({ workspaceId: budget.workspaceId, tool: "codex", host: "build-box" }, site),
  ],
  ["Approval given", "studio/keys/approval-mail.ts", approvalAnswerMail(answer, site)],
  [
    "Approval declined",
    "studio/keys/approval-mail.ts",
    approvalAnswerMail({ ...answer, declineReason: "Tell us which team pays for it." }, site),
  ],
];

/** Example values for the identity backend's templates. */
const values = {
  SiteURL: site.origin,
  TokenHash: "5b8e0d1f",
  RedirectTo: site.origin,
  Token: "0482139576",
};

const backend = Object.values(backendEmails({ name: site.product, accent: site.accent })).map(
  ({ file, subject, html }): State =>
    stateOf(subject, { route: `supabase/templates/${file}.html`, html: renderTemplate(html, values, quoteHtml) }),
);

/** Every email, displayed in a browser. */
export const emailStates: readonly State[] = [
  ...backend,
  ...ours.map(([name, module, mail, sender = site]) =>
    stateOf(name, { route: `remix-app/${module}`, html: mailBody(mail, sender).html }),
  ),
];

function stateOf(name: string, { route, html }: { route: string; html: string }): State {
  return {
    area: "Emails",
    name,
    route,
    visitor: "anonymous",
    at: () => "/healthz",
    async act({ page }) {
      // Uses a blank page without our Content Security Policy, which email clients do not apply.
      await page.goto("about:blank");
      await page.setContent(html);
    },
  };
}
