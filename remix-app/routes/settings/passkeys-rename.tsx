import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { renamePasskey } from "../../passkeys/manage.ts";
import { requirePasskey } from "../../passkeys/passkeys.ts";
import { renameSchema } from "../../passkeys/payloads.ts";
import { takeForm } from "../../session/saved-form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";

export const meta = pageTitle("Rename a passkey");

export async function loader({ request, context, params }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const { name } = await requirePasskey(context, { userId: user.id, passkeyId: params.passkeyId });
  return { name, ...takeForm(context, { request, userId: user.id }) };
}

export async function action({ request, context, params }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request, { keepsForm: true });
  const passkey = await requirePasskey(context, { userId: user.id, passkeyId: params.passkeyId });
  const submission = parseWithZod(await readForm(request, context), { schema: renameSchema });
  if (submission.status !== "success") return data(submission.reply(), { status: 400 });
  await renamePasskey(context, { userId: user.id, passkey, name: submission.value.name });
  leaveNotice(context, { card: "passkeys", done: "renamed" });
  throw redirect("/settings/security#passkeys");
}

export default function RenamePasskeyPage() {
  const { name: current } = useLoaderData<typeof loader>();
  const lastResult = useActionData<typeof action>();
  const [form, { name }] = useForm<{ name: string }>({
    id: "rename-passkey",
    lastResult,
    defaultValue: { name: current },
  });
  return (
    <EntryPage title="Rename passkey" lead="Use a name you’ll recognize, such as the device or password manager.">
      <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ name })} />
      <AccountForm id={form.id} noValidate className="space-y-5">
        <Field field={name} label="Name" required autoComplete="off" />
        <Button className="w-full">Rename passkey</Button>
      </AccountForm>
      <ButtonLink href="/settings/security#passkeys" variant="quiet" className="w-full">
        Cancel
      </ButtonLink>
    </EntryPage>
  );
}
