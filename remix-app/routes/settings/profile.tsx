import { useForm } from "@conform-to/react";
import { parseWithZod } from "@conform-to/zod/v4";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { profileSchema, saveProfile } from "../../profile/profile.ts";
import { pendingEmailChange } from "../../session/email-change.ts";
import { requireUser } from "../../session/user.ts";
import { EmailCard } from "../../settings/email-card.tsx";
import { leaveNotice, takeNotice } from "../../settings/settings-notice.ts";
import { ShortcutCard } from "../../settings/shortcut-card.tsx";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle, useBrand } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary, fieldErrors } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { CardNotice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Profile");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id, email, displayName, avatarUrl } = await requireUser(context, request);
  return {
    user: { email, displayName, avatarUrl },
    change: await pendingEmailChange(context, id),
    notice: takeNotice(context, request),
    mailboxUrl: context.env.MAILBOX_URL ?? null,
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireUser(context, request);
  const submission = parseWithZod(await readForm(request, context), { schema: profileSchema });
  if (submission.status !== "success") return data(submission.reply(), { status: 400 });
  await saveProfile(context, { user, ...submission.value });
  leaveNotice(context, { card: "profile", done: "saved" });
  throw redirect("/settings/profile#profile", 303);
}

export default function ProfilePage() {
  const { user, change, notice, mailboxUrl } = useLoaderData<typeof loader>();
  const product = useBrand().name;
  const lastResult = useActionData<typeof action>();
  const [form, { displayName, avatarUrl }] = useForm<{ displayName: string; avatarUrl: string }>({
    id: "profile-form",
    lastResult,
    defaultValue: { displayName: user.displayName ?? "", avatarUrl: user.avatarUrl ?? "" },
  });
  return (
    <Page title="Profile">
      <Card
        id="profile"
        title="Name and picture"
        lead="Your name is shown to people you share workspaces with and to apps you sign in to."
      >
        <div className="max-w-100 space-y-5">
          <CardNotice notice={notice} card="profile" words={{ saved: "Profile saved." }} />
          <ErrorSummary id={form.errorId} form={form.errors} fields={fieldErrors({ displayName, avatarUrl })} />
          <AccountForm id={form.id} noValidate className="space-y-5">
            <Field field={displayName} label="Name" autoComplete="name" required maxLength={160} />
            <Field
              field={avatarUrl}
              label="Profile picture URL (optional)"
              hint={`Apps you sign in to can show it. ${product} doesn’t.`}
              type="url"
              inputMode="url"
              autoComplete="photo"
              placeholder="https://"
            />
            <Button>Save</Button>
          </AccountForm>
        </div>
      </Card>
      <EmailCard email={user.email} change={change} notice={notice} mailboxUrl={mailboxUrl} />
      <ShortcutCard />
    </Page>
  );
}
