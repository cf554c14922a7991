import { addReturnUrl } from "../http/redirect-target.ts";
import { AccountChoices, type ListedAccount } from "./account-choices.tsx";
import { EmailAddress } from "./address.tsx";
import { Button, ButtonLink } from "./button.tsx";
import { EntryPage } from "./entry-page.tsx";
import { ErrorSummary } from "./error-summary.tsx";

export interface AppConsentProps {
  displayName: string;
  /** Where the person will be signed in, such as the app's host. */
  place: string;
  /** The app that it will be able to call; absent if the person signs in to the app itself. */
  resource?: string | undefined;
  /** What the person should know about an app that no operator has registered. */
  warning?: string | undefined;
  /** What the app will be able to see and do. */
  rights: readonly string[];
  account: { id: string; email: string };
  /** The browser's other accounts. */
  others: readonly ListedAccount[];
  /** The path of this page, to which the person returns after choosing or adding another account. */
  here: string;
  /** Where the forms post to. Defaults to the page's own URL. */
  action?: string;
  /** Whether canceling is reported to the app; otherwise it leads to Home. */
  tellsApp?: boolean;
  message?: string | undefined;
}

/**
 * Asks for consent before an app learns who a person is. Shows the app's name, host and permissions, and the account.
 */
export function AppConsent(props: AppConsentProps) {
  const { displayName, place, resource, warning, rights, account, others, here, action, tellsApp = false } = props;
  const target = action === undefined ? {} : { action };
  return (
    <EntryPage
      title={resource ? `Connect ${displayName} to ${resource}` : `Sign in to ${displayName}`}
      lead={resource ? `You’ll return to ${place}.` : `You’ll be signed in at ${place}.`}
    >
      <ErrorSummary id="continue-error" form={props.message} />
      {warning ? <p className="wrap-anywhere font-medium">{warning}</p> : null}
      <section aria-labelledby="rights" className="wrap-anywhere space-y-2">
        <h2 id="rights" className="font-medium">
          {displayName} will be able to:
        </h2>
        <ul className="list-disc space-y-1 pl-5">
          {rights.map((right) => (
            <li key={right}>{right}</li>
          ))}
        </ul>
        <p className="text-muted">
          You can disconnect {displayName} at any time under Connected apps in your security settings.
        </p>
      </section>
      <form method="post" {...target}>
        <input type="hidden" name="accountId" value={account.id} />
        <Button className="w-full">
          <EmailAddress whole>{`Continue as ${account.email}`}</EmailAddress>
        </Button>
      </form>
      <AccountChoices accounts={others} returnUrl={here} verb="Continue as" />
      <div className="space-y-1">
        <ButtonLink href={addReturnUrl("/add-account", here)} variant="quiet" className="w-full">
          Use another account
        </ButtonLink>
        {tellsApp ? (
          <form method="post" {...target}>
            <input type="hidden" name="decision" value="cancel" />
            <Button variant="quiet" className="w-full">
              Cancel
            </Button>
          </form>
        ) : (
          <ButtonLink href="/" variant="quiet" className="w-full">
            Cancel
          </ButtonLink>
        )}
      </div>
    </EntryPage>
  );
}
