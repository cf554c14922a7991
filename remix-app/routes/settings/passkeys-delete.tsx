import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { deletePasskey } from "../../passkeys/manage.ts";
import { requirePasskey } from "../../passkeys/passkeys.ts";
import { requireFreshUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";

export const meta = pageTitle("Delete a passkey");

const lastMethod =
  "This passkey is your only way to sign in. Set a password or add another passkey before you delete it.";

export async function loader({ request, context, params }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const { name } = await requirePasskey(context, { userId: user.id, passkeyId: params.passkeyId });
  return { name };
}

export async function action({ request, context, params }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const passkey = await requirePasskey(context, { userId: user.id, passkeyId: params.passkeyId });
  await readForm(request, context);
  if (!(await deletePasskey(context, { user, passkey }))) return data({ lastMethod: true }, { status: 409 });
  leaveNotice(context, { card: "passkeys", done: "deleted" });
  throw redirect("/settings/security#passkeys");
}

export default function DeletePasskeyPage() {
  const { name } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  return (
    <EntryPage title="Delete this passkey?">
      <ErrorSummary id="delete-error" form={answer?.lastMethod ? lastMethod : null} />
      <p>
        You’ll no longer be able to sign in with the passkey “{name}”. You’ll stay signed in here. Your device or
        password manager may still list it until you delete it there, too.
      </p>
      <AccountForm>
        <Button variant="danger" className="w-full">
          Delete passkey
        </Button>
      </AccountForm>
      <ButtonLink href="/settings/security#passkeys" variant="quiet" className="w-full">
        Cancel
      </ButtonLink>
    </EntryPage>
  );
}
