import type { ReactNode } from "react";
import { monthText } from "../http/date-text.ts";
import { EmailAddress } from "../ui/address.tsx";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { countOf } from "../ui/format-amount.ts";
import { RelativeTime, UtcDay } from "../ui/moment.tsx";
import { Credits } from "../ui/money.tsx";
import { formatQuantity } from "./labels.ts";
import type { Attention, Overview } from "./overview.ts";
import { budgetWords, deletionWords, importerWords, jobWords, mailWords, restWords } from "./overview-words.ts";

interface AttentionRow {
  key: string;
  /** Where somebody decides about the row. */
  to: string;
  name: ReactNode;
  /** A time, or an amount. */
  aside?: ReactNode;
  /** What to know about the row before it is opened. */
  detail?: ReactNode;
}

interface AttentionCardProps {
  kind: Exclude<keyof Attention, "providers">;
  title: string;
  lead: string;
  /** Where all rows of the kind are. */
  action?: { to: string; label: string };
  rows: AttentionRow[];
  rest?: string | null;
}

/** Names of importers' providers. */
type ProviderNames = Readonly<Record<string, string>>;

/** Returns the cards of all kinds that need somebody, what is most urgent first. */
export function attentionCards(overview: Overview, names: ProviderNames): AttentionCardProps[] {
  const { attention } = overview;
  return [
    ...operationsCards(overview),
    approvalsCard(overview),
    recoveriesCard(overview),
    deletionsCard(overview),
    machinesCard(overview),
    creditsCard(overview),
    budgetsCard(overview),
    monthsCard(overview),
    importersCard(overview, names),
  ].filter(({ kind }) => attention[kind].count > 0);
}

/** Lists rows that need somebody, and links to where they are decided. */
export function AttentionCard({ kind, title, lead, action, rows, rest }: AttentionCardProps) {
  return (
    <Card
      id={kind}
      title={title}
      lead={lead}
      action={action ? <ButtonLink href={action.to}>{action.label}</ButtonLink> : undefined}
    >
      <ul className="divide-y divide-line">
        {rows.map(({ key, to, name, aside, detail }) => (
          <li key={key} className="flex flex-wrap justify-between gap-x-4 py-2 first:pt-0 last:pb-0">
            <a href={to} className="link min-h-6 min-w-0 wrap-anywhere font-medium">
              {name}
            </a>
            {aside ? <span className="shrink-0 text-muted tabular-nums">{aside}</span> : null}
            {detail ? <span className="wrap-anywhere basis-full text-muted text-small">{detail}</span> : null}
          </li>
        ))}
      </ul>
      {rest ? <p className="mt-3 text-muted text-small">{rest}</p> : null}
    </Card>
  );
}

function operationsCards({ mails, jobs, attention }: Overview): AttentionCardProps[] {
  const mailGuide = "/docs/operating#gatehousemailsdelayed";
  return [
    {
      kind: "jobs",
      title: "Scheduled jobs are behind",
      lead: "Until they run, abandoned runs keep their reservations, and reports read more runs.",
      rows: jobs.map(({ job, since }) => ({
        key: job,
        to: jobWords[job].guide,
        name: jobWords[job].name,
        aside: since ? <RelativeTime at={since} /> : "never",
      })),
    },
    {
      kind: "mails",
      title: "Emails not sent",
      lead: "Check the mail server, and the logs of the web servers.",
      rows: mailWords(mails).map((sentence) => ({ key: sentence, to: mailGuide, name: sentence })),
      rest: attention.mails.since ? `The oldest was written on ${attention.mails.since.slice(0, 10)} (UTC).` : null,
    },
  ];
}

function approvalsCard({ approvals, attention }: Overview): AttentionCardProps {
  const { count } = attention.approvals;
  return {
    kind: "approvals",
    title: "Approvals",
    lead: `${formatQuantity(count, "workspace")} ${count === 1 ? "waits" : "wait"} for approval to create keys.`,
    action: { to: "/admin/approvals", label: "Decide" },
    rows: approvals.map(({ id, name, owners, createdAt }) => ({
      key: id,
      to: `/admin/workspaces/${id}`,
      name: <bdi>{name}</bdi>,
      aside: <RelativeTime at={createdAt} />,
      detail: owners.filter(Boolean).join(", ") || "No owner",
    })),
    rest: restWords(count, "oldest"),
  };
}

function recoveriesCard({ recoveries, attention }: Overview): AttentionCardProps {
  return {
    kind: "recoveries",
    title: "Unfinished recoveries",
    lead: "Begun by an admin, and neither finished nor used yet.",
    rows: recoveries.map(({ kind, userId, email, since, endsAt }) => ({
      key: `${kind} ${userId ?? ""} ${email ?? ""}`,
      to: userId ? `/admin/users/${userId}` : `/admin/recovery?${new URLSearchParams({ email: email ?? "" })}`,
      name: <EmailAddress>{email ?? userId ?? ""}</EmailAddress>,
      aside: <RelativeTime at={since} />,
      detail:
        kind === "reset" ? (
          "The account is closed until its authenticators are deleted and the reset is finished."
        ) : (
          <>Recovery override, not used yet. {endsAt ? <>Expires {<RelativeTime at={endsAt} />}.</> : null}</>
        ),
    })),
    rest: restWords(attention.recoveries.count, "oldest"),
  };
}

function deletionsCard({ deletions, attention }: Overview): AttentionCardProps {
  return {
    kind: "deletions",
    title: "Accounts not deleted",
    lead: "Their deletion is due. Give their workspaces another owner, or keep the accounts.",
    rows: deletions.map(({ userId, email, dueAt, ...blocked }) => ({
      key: userId,
      to: `/admin/users/${userId}`,
      name: <EmailAddress>{email ?? userId}</EmailAddress>,
      aside: <RelativeTime at={dueAt} />,
      detail: <bdi>{deletionWords(blocked)}</bdi>,
    })),
    rest: restWords(attention.deletions.count, "oldest"),
  };
}

function machinesCard({ machines, attention }: Overview): AttentionCardProps {
  return {
    kind: "machines",
    title: "Service accounts to review",
    lead: "They expire within 14 days or have expired, or the person who created them left the console. Renew, disable or revoke them.",
    action: { to: "/admin/service-accounts", label: "Open service accounts" },
    rows: machines.map(({ id, name, expiresAt, creatorLeft }) => ({
      key: id,
      to: `/admin/service-accounts/${id}`,
      name: <bdi>{name}</bdi>,
      aside: <RelativeTime at={expiresAt} />,
      detail: creatorLeft
        ? "Created by a person who no longer has a role in the console, and may know its secret."
        : null,
    })),
    rest: restWords(attention.machines.count, "earliest"),
  };
}

function budgetsCard({ budgets, attention }: Overview): AttentionCardProps {
  return {
    kind: "budgets",
    title: "Budgets used up",
    lead: "They refused calls in the last 24 hours. People in the workspace can raise them.",
    rows: budgets.map((budget) => ({
      key: `${budget.workspaceId} ${budget.scope} ${budget.subjectId} ${budget.period}`,
      to: `/admin/workspaces/${budget.workspaceId}`,
      name: <bdi>{budget.workspace}</bdi>,
      aside: <RelativeTime at={budget.refusedAt} />,
      detail: budgetWords(budget),
    })),
    rest: restWords(attention.budgets.count, "latest"),
  };
}

function creditsCard({ credits, attention }: Overview): AttentionCardProps {
  return {
    kind: "credits",
    title: "Credits used up",
    lead: "These balances refused calls in the last seven days, and were not topped up since.",
    rows: credits.map(({ payer, ownerId, name, available, refusedAt }) => ({
      key: ownerId,
      to: `/admin/credits/${payer}/${ownerId}`,
      name: payer === "member" ? <EmailAddress>{name ?? ownerId}</EmailAddress> : <bdi>{name ?? ownerId}</bdi>,
      aside: <RelativeTime at={refusedAt} />,
      detail: (
        <>
          <Credits amount={available} /> credits available
        </>
      ),
    })),
    rest: restWords(attention.credits.count, "latest"),
  };
}

function monthsCard({ months, attention }: Overview): AttentionCardProps {
  return {
    kind: "months",
    title: "Months to close",
    lead: "These months have ended and are not closed.",
    action: { to: "/admin/books", label: "Open books" },
    rows: months.map((month) => ({
      key: month,
      to: `/admin/books/close?month=${month}`,
      name: `Close ${monthText(`${month}-01`)}`,
    })),
    rest: restWords(attention.months.count, "oldest"),
  };
}

function importersCard({ importers }: Overview, names: ProviderNames): AttentionCardProps {
  return {
    kind: "importers",
    title: "Cost imports that fail",
    lead: `${countOf(importers.length, "provider")} of the automatic imports.`,
    rows: importers.map((importer) => ({
      key: importer.provider,
      to: "/admin/books#automatic-imports",
      name: names[importer.provider] ?? importer.provider,
      aside: importer.lastCompleteDay ? (
        <>
          complete to <UtcDay at={importer.lastCompleteDay} />
        </>
      ) : null,
      detail: importerWords(importer),
    })),
  };
}
