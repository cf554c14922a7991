import { Check } from "lucide-react";
import { addReturnUrl } from "../http/redirect-target.ts";
import { EmailAddress } from "./address.tsx";
import { Notice } from "./notice.tsx";

/** An account of this browser, as shown in lists. */
export interface ListedAccount {
  id: string;
  email: string | null;
  displayName: string | null;
  requiresReauth: boolean;
  /** Completes "Signed out"; empty if the reason is unknown. */
  end?: string;
  active?: boolean;
}

const row =
  "flex min-h-12 w-full cursor-pointer items-center gap-3 rounded-card border border-line bg-surface px-3 py-2 text-left hover:bg-sunken";

/**
 * Renders a button for each signed-in account, to switch to the account and continue to `returnUrl`. Signed-out
 * accounts get a sign-in link instead.
 */
export function AccountChoices({
  accounts,
  returnUrl,
  verb,
}: {
  accounts: readonly ListedAccount[];
  returnUrl: string;
  verb: string;
}) {
  if (accounts.length === 0) return null;
  return (
    <ul className="space-y-2">
      {accounts.map((account) => (
        <li key={account.id}>
          {account.requiresReauth ? (
            <a href={signInAgainPath(account, returnUrl)} className={row}>
              <AccountInitial account={account} />
              <AccountNames account={account} note={`Signed out ${account.end ?? ""}`.trim()} />
            </a>
          ) : (
            <form method="post" action="/accounts">
              <input type="hidden" name="accountId" value={account.id} />
              <input type="hidden" name="returnUrl" value={returnUrl} />
              <button type="submit" className={row}>
                <AccountInitial account={account} />
                <AccountNames account={account} verb={verb} />
                {account.active ? <ActiveMark /> : null}
              </button>
            </form>
          )}
        </li>
      ))}
    </ul>
  );
}

export function ActiveMark() {
  return (
    <>
      <Check aria-hidden="true" className="size-4 shrink-0 text-accent" />
      <span className="sr-only">Active</span>
    </>
  );
}

/** Returns the path of the page where a person signs in again to a listed account. */
export function signInAgainPath({ id }: Pick<ListedAccount, "id">, returnUrl: string): string {
  const page = addReturnUrl("/add-account", returnUrl || "/");
  return `${page}${page.includes("?") ? "&" : "?"}${new URLSearchParams({ account: id })}`;
}

/**
 * Says that another account is signed in to this browser, and what continuing does.
 * @param props.other the other account's masked email, if it is known
 */
export function OtherAccountNotice({ visitor, other }: { visitor: string; other: string | null | undefined }) {
  return (
    <Notice tone="warn">
      You’re signed in as{" "}
      <strong className="font-semibold">
        <EmailAddress whole>{visitor}</EmailAddress>
      </strong>
      . If you continue, you’ll also be signed in{" "}
      {other ? (
        <>
          as{" "}
          <strong className="font-semibold">
            <EmailAddress whole>{other}</EmailAddress>
          </strong>
        </>
      ) : (
        "to the account this email was sent to"
      )}
      , and we’ll switch you to that account.
    </Notice>
  );
}

/** Shows an account's first letter in place of a picture. */
export function AccountInitial({ account }: { account: Pick<ListedAccount, "email" | "displayName"> }) {
  return (
    <span
      aria-hidden="true"
      className="grid size-7 shrink-0 place-items-center overflow-hidden rounded-full bg-accent-soft font-semibold text-accent text-small uppercase"
    >
      {getInitial(account.displayName ?? account.email ?? "")}
    </span>
  );
}

/** Shows an account's email, further notes and, if the account has one, its name. */
export function AccountNames({
  account: { email, displayName },
  verb,
  note,
}: {
  account: Pick<ListedAccount, "email" | "displayName">;
  verb?: string;
  note?: string;
}) {
  return (
    <span className="min-w-0 flex-1">
      {verb ? <span className="sr-only">{verb} </span> : null}
      {displayName ? <bdi className="block break-words font-medium">{displayName}</bdi> : null}
      <span className={`block ${displayName ? "text-muted" : "font-medium"}`}>
        {email ? <EmailAddress whole>{email}</EmailAddress> : null}
      </span>
      {note ? <span className="block text-muted text-small">{note}</span> : null}
    </span>
  );
}

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
/**
 * Matches an ASCII first letter without combining characters after it. Segmenting every name would take longer than
 * rendering the list.
 */
const plainFirst = /^[!-~](?![^ -~])/;

/** Returns the first letter of a name, as a grapheme instead of a code point. */
export function getInitial(name: string): string {
  const trimmed = name.trim();
  if (plainFirst.test(trimmed)) return trimmed.charAt(0);
  const [first] = graphemes.segment(trimmed);
  return first?.segment ?? "?";
}
