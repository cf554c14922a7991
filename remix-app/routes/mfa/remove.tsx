import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { listAuthenticators } from "../../mfa/authenticators.ts";
import { factorIdSchema } from "../../mfa/code-schema.ts";
import { removeAuthenticator } from "../../mfa/remove-authenticator.ts";
import { securityPath } from "../../mfa/security-path.ts";
import { requireFreshUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Remove an authenticator app");

export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const authenticators = (await listAuthenticators(context, user.id)).filter(({ verified }) => verified);
  const factorId = new URL(request.url).searchParams.get("factorId");
  const authenticator = authenticators.find(({ id }) => id === factorId);
  if (!authenticator) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { authenticator, last: authenticators.length === 1, required: user.mfa.policy === "required" };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const factorId = factorIdSchema.safeParse((await readForm(request, context)).get("factorId"));
  if (!factorId.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  if (await removeAuthenticator(context, { user, factorId: factorId.data })) throw redirect(securityPath);
  return data({ message: lastOfRequired }, { status: 400 });
}

const lastOfRequired =
  "Your account requires an authenticator app, and this is your last one. Add another one before you remove this one.";

export default function RemoveAuthenticatorPage() {
  const { authenticator, last, required } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const isRequired = last && required;
  return (
    <EntryPage
      title={`Remove authenticator app “${authenticator.name}”?`}
      lead={
        isRequired
          ? undefined
          : last
            ? "This is your last authenticator app. You’ll no longer be asked for a code at sign-in, and your recovery codes will stop working."
            : "Its codes will stop working. Your other authenticator apps will keep working."
      }
    >
      <ErrorSummary id="remove-error" form={answer?.message} />
      {isRequired ? (
        <>
          <Notice tone="warn">{lastOfRequired}</Notice>
          <ButtonLink
            href={`/mfa/enroll?${new URLSearchParams({ returnUrl: securityPath })}`}
            variant="primary"
            className="w-full"
          >
            Add another app
          </ButtonLink>
        </>
      ) : (
        <AccountForm>
          <input type="hidden" name="factorId" value={authenticator.id} />
          <Button variant="danger" className="w-full">
            Remove app
          </Button>
        </AccountForm>
      )}
      <ButtonLink href={securityPath} variant="quiet" className="w-full">
        Cancel
      </ButtonLink>
    </EntryPage>
  );
}
