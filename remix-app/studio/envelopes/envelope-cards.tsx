import { formatDateTime } from "../../http/date-text.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ConfirmCard } from "../../ui/confirm-card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Field } from "../../ui/field.tsx";
import { countOf, formatCount, formatExactUsd } from "../../ui/format-amount.ts";
import { RelativeTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { formatLogEntry } from "../../workspaces/audit-log.ts";
import { limitFields, proposeRaises, toUtcField } from "./envelope-fields.ts";
import { EnvelopeMeter } from "./envelope-meter.tsx";
import type { Envelope } from "./envelope-schema.ts";
import type { HistoryEntry } from "./envelopes.ts";

type CardProps = { envelope: Envelope; page: string };

/** Says what the task waits for, or how it ended. */
export function StateNotice({ envelope }: { envelope: Envelope }) {
  const { state, waiting, lastRefusedAt, endsAt, endedAt, endedBy, replaced, calls, remainingCalls } = envelope;
  if (state === "ended") {
    return (
      <Notice>
        Stopped {endedAt === null ? null : <RelativeTime at={endedAt} />}
        {endedBy === null ? "" : ` by ${endedBy}`}. Its requests are refused. A stopped task can’t continue.
      </Notice>
    );
  }
  if (state === "expired") {
    return (
      <Notice tone={replaced ? "info" : "warn"}>
        Expired <RelativeTime at={endsAt} />.{" "}
        {replaced
          ? "A newer task limit has replaced it."
          : "Its requests are refused. Choose a later end to resume it."}
      </Notice>
    );
  }
  if (!waiting || lastRefusedAt === null) return null;
  return (
    <Notice tone="warn">
      Waiting for your decision. A request was refused <RelativeTime at={lastRefusedAt} />, because{" "}
      {calls !== null && remainingCalls === 0
        ? "all its requests are used up."
        : "what’s left doesn’t cover its maximum cost."}
    </Notice>
  );
}

/**
 * Shows what is used of the limit, with buttons that resume or stop the task.
 * @param props.hasRaises whether there are buttons that raise the limit
 */
export function UseCard(props: CardProps & { runsPath: string | null; hasRaises: boolean }) {
  const { envelope, page, runsPath, hasRaises } = props;
  const { state, waiting, replaced, version, endsAt } = envelope;
  const proposals = state === "open" && hasRaises ? proposeRaises(envelope) : [];
  const resumes = state === "expired" && !replaced ? resumeTimes : [];
  return (
    <Card title="Used">
      <div className="space-y-4">
        <EnvelopeMeter envelope={envelope} />
        {state === "open" ? (
          <p className="text-muted">
            Ends <RelativeTime at={endsAt} />, on {formatDateTime(endsAt)}.
          </p>
        ) : null}
        {state === "open" || resumes.length > 0 ? (
          <AccountForm action={page} className="flex flex-wrap gap-3">
            <input type="hidden" name="version" value={version} />
            {proposals.map(({ name, value }, index) => (
              <Button key={value} name={name} value={value} variant={waiting && index === 0 ? "primary" : "secondary"}>
                {name === "limitUsd" ? `Raise to ${shortUsd(value)}` : `Raise to ${countOf(Number(value), "request")}`}
              </Button>
            ))}
            {resumes.map(({ label, hours }, index) => (
              <Button key={hours} name="hours" value={hours} variant={index === 0 ? "primary" : "secondary"}>
                {`Resume for ${label}`}
              </Button>
            ))}
            {state === "open" ? (
              <>
                <ButtonLink href="#change">Other amount</ButtonLink>
                <ButtonLink href={`${page}?confirm=stop`} variant="danger">
                  Stop now
                </ButtonLink>
              </>
            ) : null}
          </AccountForm>
        ) : null}
        {runsPath === null ? null : (
          <p>
            <a className="link inline-block py-0.5" href={runsPath}>
              View its runs
            </a>
          </p>
        )}
      </div>
    </Card>
  );
}

const resumeTimes = [
  { label: "1 hour", hours: "1" },
  { label: "1 day", hours: "24" },
] as const;

/** Returns the end that a button of {@link UseCard} stands for, as the form's field, or undefined for another value. */
export function resumeEnd(hours: string | undefined): string | undefined {
  if (!resumeTimes.some((time) => time.hours === hours)) return undefined;
  return toUtcField(new Date(Date.now() + Number(hours) * 3_600_000));
}

/** Formats an amount on a button: "$10", "$0.50". */
function shortUsd(amount: string): string {
  return formatExactUsd(amount).replace(/\.00$/, "");
}

/** The form that changes a limit. @param props.typed the submitted values, if they were rejected or are restored */
export function LimitForm({
  envelope,
  page,
  typed,
  errors,
}: CardProps & { typed: Readonly<Record<string, string>>; errors: Readonly<Record<string, string | undefined>> }) {
  const values = { ...limitFields(envelope), ...typed };
  return (
    <Card
      id="change"
      title="Change limits"
      lead="Applies from the next request. To raise or extend, you’ll confirm that it’s you."
    >
      <AccountForm action={page} noValidate className="max-w-108 space-y-4">
        <ErrorSummary id="limit-error" fields={errors} />
        <input type="hidden" name="version" value={values.version} />
        <Field
          name="limitUsd"
          label="Limit, in dollars"
          hint="0 refuses every request."
          inputMode="decimal"
          autoComplete="off"
          defaultValue={values.limitUsd}
          error={errors.limitUsd}
        />
        <Field
          name="calls"
          label="Maximum requests"
          hint="Leave empty for no maximum."
          inputMode="numeric"
          autoComplete="off"
          defaultValue={values.calls}
          error={errors.calls}
        />
        <Field
          name="endsAt"
          type="datetime-local"
          label="Ends (UTC)"
          defaultValue={values.endsAt}
          error={errors.endsAt}
        />
        <Button>Save limits</Button>
      </AccountForm>
    </Card>
  );
}

/** Asks for confirmation before the task is stopped. */
export function StopQuestion({ page, name }: { page: string; name: string }) {
  return (
    <ConfirmCard
      title={`Stop ${name}?`}
      lead="Its next requests are refused, and those in progress end within seconds. This can’t be undone. To pause it instead, set the limit to 0."
      cancelTo={page}
    >
      <AccountForm action={page}>
        <Button name="intent" value="stop" variant="danger">
          Stop now
        </Button>
      </AccountForm>
    </ConfirmCard>
  );
}

/** Shows whose requests the limit holds, and how it was set. */
export function EnvelopeFacts({ envelope }: { envelope: Envelope }) {
  const { id, label, principal, owner, holdsAll, openedUsd, openedCalls, openedAt, openedBy } = envelope;
  const { kind, name } = principal;
  const held =
    label !== "" ? `Requests with the label ${label}` : holdsAll ? "All requests" : "Requests that send its header";
  const calls = openedCalls === null ? "" : ` and ${countOf(openedCalls, "request")}`;
  return (
    <Card title="Details">
      <FactList
        facts={[
          [kind === "key" ? "API key" : "Person", name ?? (kind === "key" ? "Deleted key" : "Former member")],
          ...(kind === "key" && owner !== null ? [["Owner", owner] as const] : []),
          ["Holds", held],
          [
            "Set",
            `${formatDateTime(openedAt)}, by ${openedBy ?? "a request"}, to ${formatExactUsd(openedUsd)}${calls}`,
          ],
          ["Envelope ID (API)", id],
        ]}
      />
    </Card>
  );
}

/** Shows who changed the limit, newest first. */
export function HistoryCard({ history }: { history: readonly HistoryEntry[] }) {
  return (
    <Card title="Changes">
      {history.length === 0 ? <p className="text-muted">No changes yet.</p> : null}
      <ul>
        {history.map((entry) => (
          <li
            key={entry.id}
            className="flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1 border-line py-2.5 first:pt-0 last:pb-0 not-first:border-t"
          >
            <span className="wrap-anywhere min-w-0">{formatLogEntry(entry)}</span>
            <span className="text-muted text-small">
              <RelativeTime at={entry.at} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Returns what was saved, in words. */
export function savedText({ limitUsd, calls, endsAt }: Envelope): string {
  const requests = calls === null ? "" : `, ${formatCount(calls)} requests`;
  return `Saved: ${formatExactUsd(limitUsd)}${requests}, until ${formatDateTime(endsAt)}.`;
}
