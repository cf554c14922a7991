import { type MetaFunction, useActionData, useLoaderData, useLocation } from "@remix-run/react";
import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { keptSearch, searchTerm } from "../../http/search-params.ts";
import { changeReadPolicy, readAiPolicy } from "../../studio/policy/ai-policy.ts";
import { PolicyCards } from "../../studio/policy/policy-cards.tsx";
import { policyFields, readPolicyForm } from "../../studio/policy/policy-form.ts";
import { modelRows, pageOfRows, readPolicyFrame } from "../../studio/policy/policy-frame.ts";
import { policyDifferences, policyWords } from "../../studio/policy/policy-words.ts";
import { unknownModelsText } from "../../studio/unknown-models.ts";
import { Card, Panel } from "../../ui/card.tsx";
import { Facts } from "../../ui/facts.tsx";
import { Moment } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { SearchForm } from "../../ui/search-form.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `Policy · ${data?.workspace.name ?? "Workspace"} · Gatehouse` },
];

const readAtOf = z.iso.datetime({ offset: true }).nullable();
/** A page of models, each being a field, and the rest of the form. */
const maxFields = 100;
/** What of the address says which models are shown. */
const listParams = ["q", "cursor"];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const [policy, frame] = await Promise.all([readAiPolicy(context, member), readPolicyFrame(context, member)]);
  const rows = modelRows(frame, policy);
  const { searchParams } = new URL(request.url);
  const term = searchTerm(request);
  const { models: _, ...plan } = frame;
  return {
    workspace,
    manages: workspace.permissions.includes("manage_ai_policy"),
    frame: plan,
    page: pageOfRows(rows, { term, cursor: searchParams.get("cursor"), requestId: context.requestId }),
    modelCount: rows.length,
    term,
    policy,
    fields: policyFields(policy, rows),
    saved: searchParams.has("saved"),
    now: new Date().toISOString(),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "manage_ai_policy" });
  const form = await readForm(request, context, { maxFields });
  const [policy, frame] = await Promise.all([readAiPolicy(context, member), readPolicyFrame(context, member)]);
  const { fields, rules, errors } = readPolicyForm(form, modelRows(frame, policy));
  const read = readAtOf.safeParse(form.get("readAt") || null);
  if (!read.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  const readAt = read.data;
  if (errors) return data({ fields, errors, readAt, meanwhile: null }, { status: 400 });
  const changed = await changeReadPolicy(context, { ...member, changes: rules, readAt });
  if (changed.outcome === "unknown_models") {
    const unknown = { models: unknownModelsText(changed) };
    return data({ fields, errors: unknown, readAt, meanwhile: null }, { status: 400 });
  }
  if (changed.outcome === "changed") {
    const here = keptSearch(new URL(request.url).search, { keep: listParams, add: { saved: "yes" } });
    throw redirect(`/workspaces/${workspace.id}/ai/policy${here}`, 303);
  }
  const { updatedAt, updatedBy } = changed.policy;
  const meanwhile = { updatedAt, updatedBy, differences: policyDifferences(changed.policy, rules) };
  return data({ fields, errors: {}, readAt: updatedAt, meanwhile }, { status: 409 });
}

export default function PolicyPage() {
  const { workspace, manages, frame, page, modelCount, term, policy, fields, saved, now } =
    useLoaderData<typeof loader>();
  const { search } = useLocation();
  const answer = useActionData<typeof action>();
  return (
    <StudioPage
      workspace={workspace}
      title="Policy"
      lead={
        <>
          What calls of this workspace may use, and what is kept of them. A change holds from the next call on.
          {policy.updatedAt ? (
            <>
              {" "}
              Last changed <Moment at={policy.updatedAt} now={now} />
              {policy.updatedBy ? ` by ${policy.updatedBy}` : ""}.
            </>
          ) : null}
        </>
      }
    >
      {saved && !answer ? <Notice tone="good">The policy is saved.</Notice> : null}
      {answer?.meanwhile ? (
        <Notice tone="warn">
          <p>
            {answer.meanwhile.updatedBy ?? "Somebody"} changed the policy while you were at it. Nothing of yours is
            saved yet. Save again to put yours in its place:
          </p>
          <ul className="mt-1.5 list-disc space-y-1 pl-5">
            {answer.meanwhile.differences.map(({ label, theirs, yours }) => (
              <li key={label}>
                {label}: now “{theirs}”, yours “{yours}”
              </li>
            ))}
          </ul>
        </Notice>
      ) : null}
      {manages ? (
        <>
          {modelCount > page.rows.length ? (
            <Panel>
              <SearchForm label="Find a model" term={term} />
              <p className="mt-3 text-muted">
                {page.count === 0
                  ? `No model matches “${term}”.`
                  : `${page.rows.length} of ${page.count} models. Save before you open another page.`}
              </p>
              <PageNav label="Pages of models" nextCursor={page.nextCursor} keep={["q"]} />
            </Panel>
          ) : null}
          <PolicyCards
            action={keptSearch(search, { keep: listParams })}
            frame={frame}
            rows={page.rows}
            fields={answer?.fields ?? fields}
            errors={answer?.errors ?? {}}
            readAt={answer ? answer.readAt : policy.updatedAt}
          />
        </>
      ) : (
        <Card title="Rules" lead="Your role does not allow changing them. Ask someone who manages the AI policy.">
          <Facts facts={policyWords(policy).map(({ label, text }) => [label, text])} />
        </Card>
      )}
    </StudioPage>
  );
}
