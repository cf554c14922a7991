import { providerLabel } from "../config/oauth-providers.ts";
import type { AccessWay, AccountAccess } from "../session/account-access.ts";
import { isOwnItem } from "../session/own-item.ts";
import { AccountForm } from "../ui/account-form.tsx";
import { Button } from "../ui/button.tsx";
import { countText } from "../ui/count-text.ts";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { accessPath } from "./paths.ts";
import { UnconfirmedMark } from "./unconfirmed-mark.tsx";

/** Why a decision was refused, and the kinds of the items that caused it. */
export interface AccessRefusal {
  message: string;
  kinds: readonly AccessWay["kind"][];
}

export interface AccessFormProps {
  access: AccountAccess;
  /** Keys of the selected items. */
  selected: readonly string[];
  currentSessionId: string;
  /** Where to continue; empty for the Security page. */
  returnUrl: string;
  refusal?: AccessRefusal | null;
}

/**
 * Lists everything that can open the account or act for it, and when and from where each item was added. One button submits the list.
 */
export function AccessForm({ access, selected, currentSessionId, returnUrl, refusal = null }: AccessFormProps) {
  const { ways, listedAt, confirmedAt, otherSessions } = access;
  const unconfirmed = ways.filter((way) => way.unconfirmed).map(({ key }) => key);
  const sessions = ways.filter(({ kind }) => kind === "session").map(({ key }) => key);
  const isCurrent = ({ kind, id }: AccessWay) => kind === "session" && id === currentSessionId;
  const refusedIndex = refusal
    ? ways.findIndex(({ key, kind }) => selected.includes(key) && refusal.kinds.includes(kind))
    : -1;
  return (
    <AccountForm action={accessPath} className="group/access counts-checked space-y-5">
      <ErrorSummary
        id="access-error"
        form={refusedIndex < 0 ? refusal?.message : null}
        fields={refusedIndex < 0 ? {} : { [fieldId(refusedIndex)]: refusal?.message }}
      />
      <input type="hidden" name="listedAt" value={listedAt} />
      <input type="hidden" name="listed" value={unconfirmed.join(" ")} />
      <input type="hidden" name="sessions" value={sessions.join(" ")} />
      <input type="hidden" name="returnUrl" value={returnUrl} />
      <fieldset className="min-w-0">
        <legend className="max-w-prose text-muted">
          {selected.length > 0 && !refusal ? (
            <>
              Remove anything you don’t recognize. We’ve selected items added since{" "}
              {confirmedAt ? (
                <>
                  your last review (<RelativeTime at={confirmedAt} />)
                </>
              ) : (
                "your account was created"
              )}
              . Uncheck any you want to keep.
            </>
          ) : (
            "Select and remove anything you don’t recognize."
          )}{" "}
          {unconfirmed.length > 0
            ? "We couldn’t confirm that it was you who added the items marked “Unconfirmed”. "
            : ""}
          You’ll stay signed in on this device.
        </legend>
        <ul className="mt-1 divide-y divide-line">
          {ways.map((way, index) => (
            <WayLine
              key={way.key}
              way={way}
              index={index}
              current={isCurrent(way)}
              own={isOwnItem(way, { sessionId: currentSessionId })}
              addedHere={!isCurrent(way) && way.bySession === currentSessionId}
              selected={selected.includes(way.key)}
              error={index === refusedIndex ? (refusal?.message ?? null) : null}
            />
          ))}
          {otherSessions.count > 0 ? (
            <OtherSessions
              others={otherSessions}
              index={ways.length}
              listedCount={sessions.length}
              selected={selected.includes(otherSessions.key)}
            />
          ) : null}
        </ul>
      </fieldset>
      {/* The style sheet counts what is checked, so that the label follows the checkboxes without a script. */}
      <Button variant="danger" className="group-not-has-checked/access:hidden max-sm:w-full">
        <span>
          Remove <span className="checked-count" />
          selected and keep the rest
        </span>
      </Button>
      <Button className="hidden group-not-has-checked/access:inline-flex max-sm:w-full">Keep everything</Button>
    </AccountForm>
  );
}

const fieldId = (index: number) => `remove-${index}`;

function WayLine({
  way,
  index,
  current,
  own,
  addedHere,
  selected,
  error,
}: {
  way: AccessWay;
  index: number;
  current: boolean;
  /** Whether this session added the item or proved that it is the owner's. */
  own: boolean;
  /** Whether this session added the item. */
  addedHere: boolean;
  selected: boolean;
  error: string | null;
}) {
  const id = fieldId(index);
  const title = <span className="font-medium [overflow-wrap:anywhere]">{nameOf(way)}</span>;
  return (
    <li className="flex gap-3 py-3">
      {current ? (
        <span aria-hidden="true" className="size-4 shrink-0" />
      ) : (
        <input
          type="checkbox"
          id={id}
          name={`remove_${index}`}
          value={way.key}
          defaultChecked={selected}
          aria-describedby={error ? `${id}-error ${id}-facts` : `${id}-facts`}
          aria-invalid={error ? true : undefined}
          className="mt-0.5 size-4 shrink-0 cursor-pointer accent-accent"
        />
      )}
      <div className="min-w-0">
        <p className="flex flex-wrap items-baseline gap-x-2">
          {current ? (
            title
          ) : (
            <label htmlFor={id} className="-my-1 min-w-0 cursor-pointer py-1">
              {title}
            </label>
          )}
          {current ? <span className="font-medium text-good text-small">This device</span> : null}
          {way.unconfirmed ? <UnconfirmedMark /> : null}
          {way.proven ? <span className="font-medium text-good text-small">You just entered its code</span> : null}
          {way.isNew && !way.unconfirmed && !own ? (
            <span className="font-medium text-accent text-small">New</span>
          ) : null}
        </p>
        {error ? (
          <p id={`${id}-error`} className="text-bad">
            {error}
          </p>
        ) : null}
        <p id={`${id}-facts`} className="text-muted">
          {kindTexts[way.kind].verb} <RelativeTime at={way.addedAt} />
          {addedHere ? " from this device" : describeOrigin(way)}
          {way.lastUsedAt && !current ? (
            <>
              {" · "}
              {kindTexts[way.kind].used} <RelativeTime at={way.lastUsedAt} />
            </>
          ) : null}
        </p>
        {way.kind === "password" && !own ? (
          <a className="link" href="/settings/security/password">
            Change password
          </a>
        ) : null}
      </div>
    </li>
  );
}

/** Shows, in one line, the sessions that the list leaves out. */
function OtherSessions({
  others: { key, count, isNew },
  index,
  listedCount,
  selected,
}: {
  others: AccountAccess["otherSessions"];
  index: number;
  /** The number of sessions that the list shows individually. */
  listedCount: number;
  selected: boolean;
}) {
  const id = fieldId(index);
  return (
    <li className="flex gap-3 py-3">
      <input
        type="checkbox"
        id={id}
        name={`remove_${index}`}
        value={key}
        defaultChecked={selected}
        aria-describedby={`${id}-facts`}
        className="mt-0.5 size-4 shrink-0 cursor-pointer accent-accent"
      />
      <div className="min-w-0">
        <p className="flex flex-wrap items-baseline gap-x-2">
          <label htmlFor={id} className="-my-1 min-w-0 cursor-pointer py-1 font-medium">
            {countText(count)} more {count === 1 ? "session" : "sessions"}
          </label>
          {isNew ? <span className="font-medium text-accent text-small">New</span> : null}
        </p>
        <p id={`${id}-facts`} className="text-muted">
          Last active before the {listedCount} sessions above.
        </p>
      </div>
    </li>
  );
}

const kindTexts: Record<AccessWay["kind"], { noun: string; verb: string; used: string }> = {
  password: { noun: "Password", verb: "Set", used: "last used" },
  identity: { noun: "Account", verb: "Linked", used: "last used" },
  passkey: { noun: "Passkey", verb: "Added", used: "last used" },
  authenticator: { noun: "Authenticator app", verb: "Added", used: "last used" },
  recovery_codes: { noun: "Recovery codes", verb: "Created", used: "last used" },
  recovery_mail: { noun: "Recovery email from support", verb: "Sent", used: "last used" },
  session: { noun: "Session", verb: "Signed in", used: "last active" },
  phone_approval: { noun: "Approval by phone", verb: "Approved", used: "last used" },
  app: { noun: "App", verb: "Connected", used: "access renewed" },
  device: { noun: "Device", verb: "Approved", used: "access renewed" },
  agent: { noun: "Coding agent", verb: "Connected", used: "last used" },
};

/** Returns a name such as "Passkey: Laptop", or the kind alone for an unnamed one. */
function nameOf({ kind, name, provider }: AccessWay): string {
  if (kind === "phone_approval" && name === "Recovery code") return "Sign-in with a recovery code";
  const noun = kind === "identity" && provider ? providerLabel(provider) : kindTexts[kind].noun;
  return name && name !== noun ? `${noun}: ${name}` : noun;
}

function describeOrigin({ kind, device, address }: AccessWay): string {
  // A session's name already contains its device.
  const place = [kind === "session" ? null : device, address].filter(Boolean).join(", ");
  return place && ` from ${place}`;
}
