import { Button, buttonClass } from "../../ui/button.tsx";
import { ConfirmCard } from "../../ui/confirm-card.tsx";
import { Dotted } from "../../ui/facts.tsx";
import { Select } from "../../ui/field.tsx";
import { formatUsd } from "../../ui/format-amount.ts";
import { Link } from "../../ui/link.tsx";
import { Moment } from "../../ui/moment.tsx";
import { PostForm } from "../../ui/post-form.tsx";
import type { KeySummary } from "./key-schema.ts";

const states = { active: "", replaced: "Replaced", expired: "Expired", revoked: "Revoked" } as const;

/** First the one that breaks no program which runs now. */
const overlaps = [
  { seconds: 3_600, label: "keep the old one an hour" },
  { seconds: 86_400, label: "keep the old one a day" },
  { seconds: 0, label: "revoke the old one now" },
] as const;

/** Whether a key still opens anything. */
export function isLive({ state }: Pick<KeySummary, "state">): boolean {
  return state === "active" || state === "replaced";
}

/** Limits and bindings of a key, as short facts. */
function factsOf(key: KeySummary): string[] {
  return [
    key.environment,
    key.externalApp ? `bound to ${key.externalApp.name}` : "",
    key.requestsPerMinute === null ? "" : `${key.requestsPerMinute} requests a minute`,
    key.tokensPerMinute === null ? "" : `${key.tokensPerMinute} tokens a minute`,
    key.budget ? budgetWords(key.budget) : "",
    key.allowedModels ? `models: ${key.allowedModels.join(", ")}` : "",
    key.allowedAddresses ? `from ${key.allowedAddresses.join(", ")}` : "",
    key.strict ? "strict mode" : "",
  ].filter(Boolean);
}

/** A workspace's keys with their state, and what can be done with those that still work. */
export function KeyList({
  keys,
  mayRotate,
  here,
  now,
}: {
  keys: KeySummary[];
  mayRotate: boolean;
  /** Address of the page that they are on. */
  here: string;
  now: string;
}) {
  if (keys.length === 0) {
    return (
      <p className="text-muted">
        No key yet. Make one for each program, so that you can end one without touching the others.
      </p>
    );
  }
  return (
    <ul>
      {keys.map((key) => {
        const live = isLive(key);
        return (
          <li key={key.id} className="space-y-2 border-line py-4 not-first:border-t first:pt-0 last:pb-0">
            <div className="flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1">
              <p className={live ? "min-w-0 font-medium" : "min-w-0 text-muted"}>
                <bdi>{key.name}</bdi>{" "}
                {states[key.state] ? <span className="text-muted">({states[key.state]})</span> : null}
              </p>
              <code className="break-all font-mono text-muted text-small">{key.prefix}…</code>
            </div>
            <p className="text-muted text-small">
              <Dotted facts={factsOf(key)} /> · made <Moment at={key.createdAt} now={now} />
              {key.createdBy ? (
                <>
                  {" "}
                  by <bdi>{key.createdBy}</bdi>
                </>
              ) : null}{" "}
              ·{" "}
              {key.lastUsedAt ? (
                <>
                  last used <Moment at={key.lastUsedAt} now={now} />
                </>
              ) : (
                "never used"
              )}
              {live && key.expiresAt ? (
                <>
                  {" · "}expires <Moment at={key.expiresAt} now={now} />
                </>
              ) : null}
            </p>
            {live ? (
              <div className="flex flex-wrap items-end gap-2">
                {mayRotate && key.state === "active" ? (
                  <PostForm action={here} className="flex flex-wrap items-end gap-2">
                    <input type="hidden" name="intent" value="rotate" />
                    <input type="hidden" name="keyId" value={key.id} />
                    <Select id={`overlap-${key.id}`} name="overlapSeconds" label={`Rotating ${key.name}`} hideLabel>
                      {overlaps.map(({ seconds, label }) => (
                        <option key={seconds} value={seconds}>
                          {label}
                        </option>
                      ))}
                    </Select>
                    <Button variant="secondary" aria-label={`Rotate ${key.name}`}>
                      Rotate
                    </Button>
                  </PostForm>
                ) : null}
                <Link
                  to={`${here}${here.includes("?") ? "&" : "?"}revoke=${key.id}`}
                  className={buttonClass("danger")}
                  aria-label={`Revoke ${key.name}`}
                >
                  Revoke
                </Link>
              </div>
            ) : null}
          </li>
        );
      })}
    </ul>
  );
}

/** Without what was spent where the workspace hides what providers charge. */
function budgetWords({ limitUsd, spentUsd }: NonNullable<KeySummary["budget"]>): string {
  const limit = formatUsd(limitUsd);
  return spentUsd === null ? `${limit} a month` : `${formatUsd(spentUsd)} of ${limit} this month`;
}

/** Asks before a key ends, which no program that has it survives. */
export function KeyRevocation({
  keyId,
  name,
  here,
}: {
  keyId: string;
  name: string;
  /** Address of the list that it is on. */
  here: string;
}) {
  return (
    <ConfirmCard
      title={`Revoke ${name}?`}
      lead="Programs that use it are refused from their next call on, for good. To replace it without a gap, rotate it instead."
      cancelTo={here}
    >
      <PostForm action={here}>
        <input type="hidden" name="intent" value="revoke" />
        <input type="hidden" name="keyId" value={keyId} />
        <Button variant="danger">Revoke key</Button>
      </PostForm>
    </ConfirmCard>
  );
}
