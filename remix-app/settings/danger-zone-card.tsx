import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";

/** Offers a copy of all data stored about the account. */
export function YourDataCard() {
  return (
    <Card
      id="your-data"
      title="Your data"
      lead="Everything stored about your account, as one JSON file."
      action={
        <AccountForm action="/settings/security/export">
          <Button variant="secondary">Download your data</Button>
        </AccountForm>
      }
    />
  );
}

/** Offers to delete the account. */
export function DangerZoneCard() {
  return (
    <Card
      id="danger-zone"
      danger
      title="Delete account"
      lead="Permanently deletes your account and its data. This can’t be undone."
      action={
        <ButtonLink href="/settings/security/delete-account" variant="danger">
          Delete account
        </ButtonLink>
      }
    />
  );
}
