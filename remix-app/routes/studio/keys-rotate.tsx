import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { requireFreshUser } from "../../session/user.ts";
import { factsOf } from "../../studio/keys/key-list.tsx";
import { requireKey, rotateKey } from "../../studio/keys/keys.ts";
import { NewSecret, newKeyFragment } from "../../studio/keys/new-secret.tsx";
import { sampleModel } from "../../studio/keys/sample-model.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Rotate ${data?.key.name ?? "key"}`);

const permission = "manage_ai_keys";
const rotationFormSchema = z.object({ overlapSeconds: z.coerce.number().int().min(0).max(86_400) });

/** How long the old key keeps working. The default is the first entry, so that running programs are not interrupted. */
const overlapChoices = [
  { seconds: 3_600, label: "In one hour" },
  { seconds: 86_400, label: "In one day" },
  { seconds: 0, label: "Now: apps that use it stop working immediately" },
] as const;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  await requireFreshUser(context, request);
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const { key, approved } = await requireKey(context, { ...member, keyId: params.keyId ?? "" });
  return { workspace, key, approved, gatewayUrl: `${context.env.AI_URL}/v1` };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request);
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const parsed = rotationFormSchema.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!parsed.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  const { key, secret } = await rotateKey(context, { ...member, keyId: params.keyId ?? "", ...parsed.data });
  const model = await sampleModel(context, { key, workspaceId: workspace.id, signal: request.signal });
  return data({ name: key.name, secret, model }, { headers: { "Cache-Control": "private, no-store" } });
}

export default function RotateKeyPage() {
  const { workspace, key, approved, gatewayUrl } = useLoaderData<typeof loader>();
  const issued = useActionData<typeof action>();
  const list = `/workspaces/${workspace.id}/ai/keys`;
  if (issued) {
    return (
      <StudioPage title="API keys">
        <NewSecret {...issued} baseUrl={gatewayUrl} />
        <ButtonLink href={list}>I’ve copied it</ButtonLink>
      </StudioPage>
    );
  }
  return (
    <StudioPage title="API keys">
      <Card
        title={`Rotate ${key.name}`}
        lead="Creates a new key with the same limits, budget, models, IP addresses and app. This month’s spend carries over. The new key is shown once."
      >
        <div className="space-y-5">
          <p className="text-muted">
            <DotSeparated facts={[`${key.prefix}…`, ...factsOf(key)]} /> ·{" "}
            {key.lastUsedAt ? (
              <>
                last used <RelativeTime at={key.lastUsedAt} />
              </>
            ) : (
              "never used"
            )}
          </p>
          {!approved || key.state !== "active" ? (
            <>
              <Notice tone="warn">
                {approved
                  ? "This key no longer works or was already rotated. Nothing was changed."
                  : "This workspace isn’t approved to create or rotate API keys."}
              </Notice>
              <ButtonLink href={list}>Back to keys</ButtonLink>
            </>
          ) : (
            <AccountForm action={`${list}/${key.id}/rotate#${newKeyFragment}`} className="space-y-5">
              <fieldset className="space-y-2">
                <legend className="mb-2 font-medium">When should the old key stop working?</legend>
                {overlapChoices.map(({ seconds, label }) => (
                  <label
                    key={seconds}
                    htmlFor={`overlap-${seconds}`}
                    className="flex min-h-6 cursor-pointer items-start gap-2"
                  >
                    <input
                      id={`overlap-${seconds}`}
                      type="radio"
                      name="overlapSeconds"
                      value={seconds}
                      defaultChecked={seconds === overlapChoices[0].seconds}
                      className="mt-0.75 size-4 shrink-0 cursor-pointer accent-accent"
                    />
                    {label}
                  </label>
                ))}
              </fieldset>
              <div className="flex flex-wrap gap-3">
                <Button>Rotate key</Button>
                <ButtonLink href={list}>Cancel</ButtonLink>
              </div>
            </AccountForm>
          )}
        </div>
      </Card>
    </StudioPage>
  );
}
