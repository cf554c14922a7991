import { ButtonLink } from "./button.tsx";
import { EntryPage } from "./entry-page.tsx";

/** Where a page continues to by itself. */
export interface Departure {
  address: string;
  displayName: string;
}

/**
 * Continues to another site. After one of our forms, a redirect would be blocked: form-action applies to every redirect
 * that follows, including those of the app, which we don't know.
 */
export function LeavePage({ address, displayName }: Departure) {
  return (
    <EntryPage title={`Continuing to ${displayName}`} lead="One moment." themeSwitch={false}>
      <meta httpEquiv="refresh" content={`0;url=${address}`} />
      <ButtonLink href={address} variant="primary" className="w-full">
        Continue
      </ButtonLink>
    </EntryPage>
  );
}

/** The end of a sign-out that leads nowhere else. */
export function SignedOutPage() {
  return (
    <EntryPage title="You’re signed out" lead="You can close this page." themeSwitch={false}>
      <ButtonLink href="/login" className="w-full">
        Sign in
      </ButtonLink>
    </EntryPage>
  );
}
