import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";

/** What ends an account, last on the page; and before it, everything that would be gone. */
export function DangerZoneCard() {
  return (
    <Card id="danger-zone" title="Your data" lead="Download a copy of your data, or permanently delete your account.">
      <div className="space-y-4">
        <AccountForm
          action="/settings/security/export"
          className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2"
        >
          <p className="min-w-0 basis-72">Everything we hold about your account, as one JSON file.</p>
          <Button variant="secondary">Download your data</Button>
        </AccountForm>
        <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 border-line border-t pt-4">
          <p className="min-w-0 basis-72">Deleting the account cannot be undone.</p>
          <ButtonLink href="/settings/security/delete-account" variant="danger">
            Delete account
          </ButtonLink>
        </div>
      </div>
    </Card>
  );
}
