import { ButtonLink } from "./button.tsx";
import { EntryPage } from "./entry-page.tsx";

export interface Departure {
  address: string;
  displayName: string;
}

/**
 * Shows a page that continues to another site. Browsers would block a redirect after one of our forms, because
 * form-action must list every later redirect, and we don't know the app's redirects.
 */
export function LeavePage({ address, displayName, signedOut = false }: Departure & { signedOut?: boolean }) {
  return (
    <EntryPage
      title={`Continuing to ${displayName}`}
      lead={`${signedOut ? "You’re signed out. " : ""}If nothing happens, select Continue.`}
      themeSwitch={false}
    >
      <meta httpEquiv="refresh" content={`0;url=${address}`} />
      <ButtonLink href={address} variant="primary" className="w-full">
        Continue
      </ButtonLink>
    </EntryPage>
  );
}

/** Shows that the person is signed out, if there is nowhere else to go. */
export function SignedOutPage() {
  return (
    <EntryPage title="You’re signed out" lead="You can close this page." themeSwitch={false}>
      <ButtonLink href="/login" className="w-full">
        Sign in
      </ButtonLink>
    </EntryPage>
  );
}
