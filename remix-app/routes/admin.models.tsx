import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { ModelCard } from "../admin/model-list.tsx";
import { listModels } from "../admin/models.ts";
import { requireInfrastructureAdmin } from "../admin/require-admin.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { ConsolePage } from "../ui/console-page.tsx";
import { Notice } from "../ui/notice.tsx";

export const handle: RouteHandle = { hydrate: false };

export const meta: MetaFunction = () => [{ title: "Models · Console · Gatehouse" }];

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { email, displayName } = await requireInfrastructureAdmin(context, request);
  const done = new URL(request.url).searchParams.has("done");
  return { user: { email, displayName }, models: await listModels(context), done };
}

export default function ConsoleModelsPage() {
  const { user, models, done } = useLoaderData<typeof loader>();
  return (
    <ConsolePage user={user} section="models" title="Models" lead="The catalogue, and what each model costs.">
      {done ? <Notice tone="good">The change is made, and stands in the audit log.</Notice> : null}
      {models.length === 0 ? (
        <p className="text-muted">The catalogue is empty. Models come with the operator's seed.</p>
      ) : null}
      {models.map((model) => (
        <ModelCard key={model.id} model={model} />
      ))}
    </ConsolePage>
  );
}
