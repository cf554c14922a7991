import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { formatQuantity } from "./labels.ts";
import type { ModelStep, StepScope } from "./model-steps.ts";
import { type ConsoleModel, requireModel } from "./models.ts";

function describePlanWorkspaces({ plans }: ConsoleModel, plan: string): string | undefined {
  const found = plans.find(({ id, granted }) => granted && id === plan);
  return found && `The ${formatQuantity(found.workspaces, "workspace")} on the ${found.name} plan`;
}

/** Returns the name of a workspace, or its id if the page doesn't list it. */
function workspaceName({ workspaces }: ConsoleModel, workspace: string | null): string | undefined {
  const found = workspaces.find(({ id }) => id === workspace);
  return found?.name ?? z.uuid().safeParse(workspace).data;
}

/** Returns the URL of a step's page. */
export function stepPath(step: ModelStep, about: Record<string, string>): string {
  return `/admin/models/${step}?${new URLSearchParams(about)}`;
}

/** Returns the URL of the form that edits a whole model. */
export function setupPath(about: Record<string, string>): string {
  return `/admin/models/edit?${new URLSearchParams(about)}`;
}

const maxTokens = 2_147_483_647;

/**
 * Loads the model, and the price or grant that a step changes, from the step's URL.
 * @throws Response 404 for an unknown model, price, provider or grant
 */
export async function requireScope(
  context: AppLoadContext,
  { step, searchParams }: { step: ModelStep; searchParams: URLSearchParams },
): Promise<StepScope> {
  const model = await requireModel(context, searchParams.get("model"));
  const tier = Number(searchParams.get("tier") ?? "0");
  const [plan, workspace] = [searchParams.get("plan"), searchParams.get("workspace")];
  const holder = plan === null ? workspaceName(model, workspace) : describePlanWorkspaces(model, plan);
  const scope = {
    model,
    price: model.prices.find(({ id }) => String(id) === searchParams.get("price")) ?? null,
    providerId: searchParams.get("provider") ?? "",
    minInputTokens: tier,
    grantee: { plan, workspace: plan === null ? workspace : null, name: holder ?? "" },
  };
  const exists = {
    "cancel-price": scope.price !== null,
    withdraw: holder !== undefined,
    price: Number.isSafeInteger(tier) && tier >= 0 && tier <= maxTokens && model.providers.includes(scope.providerId),
    delete: model.canDelete,
    disable: true,
    grant: true,
  }[step];
  if (!exists) throw problem("NOT_FOUND", { requestId: context.requestId });
  return scope;
}
