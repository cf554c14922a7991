/**
 * Who may call an operation: people with a role in the console, and service accounts of the platform with the scope
 * `admin:…`. `books` also admits finance people. `person` stands for infrastructure admins only.
 */
export type AdminScope =
  | "accounts:read"
  | "accounts:write"
  | "workspaces:read"
  | "workspaces:write"
  | "approvals:write"
  | "catalogue:read"
  | "catalogue:write"
  | "apps:read"
  | "apps:write"
  | "books"
  | "audit:read"
  | "security:read"
  | "person";

type Method = "GET" | "POST" | "PATCH" | "DELETE";

/**
 * An operation: its ID, unique among those of the web server; its method and its path below {@link adminBasePath}; who
 * may call it; and the database function that makes its change. Those of the books are partly in the schema `ai`, all
 * others in `private`.
 */
type AdminOperationRow = readonly [id: string, call: `${Method} ${string}`, scope: AdminScope, change?: string];

const adminBasePath = "/api/v1/admin";

/**
 * Every operation of the admin API. Decides the routes, who may call them, and what the documents list. This module
 * imports nothing, because the route table reads it when the server is built.
 */
const adminOperations = [
  ["getOverview", "GET overview", "security:read"],
  ["changeOutageMails", "PATCH outage-mails", "person", "set_outage_mails"],
  ["listPeople", "GET people", "security:read"],
  ["listAuditLog", "GET audit-log", "audit:read"],

  ["searchAccounts", "GET accounts", "accounts:read"],
  ["getAccount", "GET accounts/{userId}", "accounts:read"],
  ["listAccountTimeline", "GET accounts/{userId}/timeline", "accounts:read"],
  ["listAccountSpending", "GET accounts/spending", "accounts:read"],
  ["signAccountOut", "POST accounts/{userId}/sign-out", "accounts:write", "sign_account_out"],
  ["banAccount", "POST accounts/{userId}/ban", "accounts:write", "ban_account"],
  ["unbanAccount", "DELETE accounts/{userId}/ban", "accounts:write", "unban_account"],
  ["scheduleAccountDeletion", "POST accounts/{userId}/deletion", "accounts:write", "request_account_deletion"],
  ["cancelAccountDeletion", "DELETE accounts/{userId}/deletion", "accounts:write", "cancel_account_deletion"],
  ["listAccountInvitations", "GET account-invitations", "accounts:read"],
  ["inviteAccount", "POST account-invitations", "accounts:write", "invite_account"],
  [
    "revokeAccountInvitation",
    "DELETE account-invitations/{invitationId}",
    "accounts:write",
    "revoke_account_invitation",
  ],
  ["getSettings", "GET settings", "accounts:read"],
  ["changeSettings", "PATCH settings", "accounts:write", "set_sign_up"],
  ["getRequiredMfa", "GET accounts/{userId}/required-mfa", "security:read"],
  ["changeRequiredMfa", "PATCH accounts/{userId}/required-mfa", "person", "change_required_mfa"],
  ["resetAuthenticators", "DELETE accounts/{userId}/authenticators", "person", "change_required_mfa"],
  ["listAddressBlocks", "GET address-blocks", "accounts:read"],
  ["liftAddressBlock", "DELETE address-blocks/{blockId}", "accounts:write", "lift_address_block"],
  ["getRecovery", "GET recovery", "security:read"],
  ["createRecoveryOverride", "POST recovery/overrides", "person", "create_recovery_override"],
  ["sendRecoveryEmail", "POST recovery/overrides/{overrideId}/send", "person", "issue_recovery_credential"],
  ["revokeRecoveryOverride", "DELETE recovery/overrides/{overrideId}", "person", "revoke_recovery_override"],

  ["searchWorkspaces", "GET workspaces", "workspaces:read"],
  ["listWorkspaceSpending", "GET workspaces/spending", "workspaces:read"],
  ["getPlatformWorkspace", "GET workspaces/{workspaceId}", "workspaces:read"],
  ["moveWorkspace", "PATCH workspaces/{workspaceId}", "workspaces:write", "move_workspace"],
  ["changeWorkspacePolicy", "PATCH workspaces/{workspaceId}/policy", "workspaces:write", "set_workspace_policy"],
  ["changeWorkspaceBudget", "PATCH workspaces/{workspaceId}/budgets", "workspaces:write", "set_workspace_budget"],
  ["getPlatform", "GET platform", "catalogue:read"],
  ["listKeyRequests", "GET key-requests", "workspaces:read"],
  ["approveKeys", "POST workspaces/{workspaceId}/key-approval", "approvals:write", "set_key_approval"],
  ["withdrawKeyApproval", "DELETE workspaces/{workspaceId}/key-approval", "approvals:write", "set_key_approval"],
  ["declineKeyRequest", "DELETE key-requests/{workspaceId}", "approvals:write", "decline_key_approval"],
  ["getCreditAccount", "GET credit-accounts/{payer}/{ownerId}", "workspaces:read"],
  ["changeCredits", "POST credit-accounts/{payer}/{ownerId}/entries", "workspaces:write", "change_credits"],
  ["searchRuns", "GET runs", "workspaces:read"],
  ["inspectRun", "GET runs/{runId}", "workspaces:read"],

  ["listPlans", "GET plans", "catalogue:read"],
  ["getPlan", "GET plans/{planId}", "catalogue:read"],
  ["createPlan", "POST plans", "catalogue:write", "save_plan"],
  ["changePlan", "PATCH plans/{planId}", "catalogue:write", "save_plan"],
  ["searchModels", "GET models", "catalogue:read"],
  ["getModel", "GET models/{modelId}", "catalogue:read"],
  ["createModel", "POST models", "catalogue:write", "save_model"],
  ["changeModel", "PATCH models/{modelId}", "catalogue:write", "save_model"],
  ["deleteModel", "DELETE models/{modelId}", "catalogue:write", "delete_model"],
  ["enableModel", "POST models/{modelId}/enable", "catalogue:write", "set_model_enabled"],
  ["disableModel", "POST models/{modelId}/disable", "catalogue:write", "set_model_enabled"],
  ["setUpModel", "POST models/{modelId}/setup", "catalogue:write", "save_model_setup"],
  ["addModelRoute", "POST models/{modelId}/routes", "catalogue:write", "change_model_route"],
  ["changeModelRoute", "PATCH models/{modelId}/routes/{position}", "catalogue:write", "change_model_route"],
  ["removeModelRoute", "DELETE models/{modelId}/routes/{position}", "catalogue:write", "change_model_route"],
  ["addModelPrice", "POST models/{modelId}/prices", "catalogue:write", "add_model_price"],
  ["cancelModelPrice", "DELETE models/{modelId}/prices/{priceId}", "catalogue:write", "cancel_model_price"],
  ["grantModel", "POST models/{modelId}/grants", "catalogue:write", "set_model_grant"],
  ["withdrawModel", "DELETE models/{modelId}/grants", "catalogue:write", "set_model_grant"],
  ["comparePrices", "GET price-proposals", "catalogue:read"],
  ["addProposedPrices", "POST price-proposals", "catalogue:write", "add_proposed_prices"],
  ["getProviders", "GET providers", "catalogue:read"],
  ["getProviderSettings", "GET provider-settings", "catalogue:read"],
  ["testRoute", "POST provider-tests", "catalogue:write"],
  ["changeProviderLimit", "PATCH providers/{providerId}", "catalogue:write", "save_provider_limit"],

  ["listApps", "GET apps", "apps:read"],
  ["getApp", "GET apps/{name}", "apps:read"],
  ["registerApp", "POST apps", "apps:write", "add_app"],
  ["changeApp", "PATCH apps/{name}", "apps:write", "change_app"],
  ["enableApp", "POST apps/{name}/enable", "apps:write", "change_app"],
  ["disableApp", "POST apps/{name}/disable", "apps:write", "change_app"],
  ["rotateAppSecret", "POST apps/{name}/secrets", "apps:write", "change_app"],
  ["linkAppWorkspace", "POST apps/{name}/workspaces", "apps:write", "change_app"],
  ["unlinkAppWorkspace", "DELETE apps/{name}/workspaces/{workspaceId}", "apps:write", "change_app"],
  ["listOpenidClients", "GET openid-clients", "apps:read"],
  ["getOpenidClient", "GET openid-clients/{name}", "apps:read"],
  ["registerOpenidClient", "POST openid-clients", "apps:write", "add_openid_client"],
  ["changeOpenidClient", "PATCH openid-clients/{name}", "apps:write", "change_openid_client"],
  ["enableOpenidClient", "POST openid-clients/{name}/enable", "apps:write", "change_app"],
  ["disableOpenidClient", "POST openid-clients/{name}/disable", "apps:write", "change_app"],
  ["rotateOpenidSecret", "POST openid-clients/{name}/secrets", "apps:write", "change_app"],

  ["listServiceAccounts", "GET service-accounts", "security:read"],
  ["getServiceAccount", "GET service-accounts/{serviceAccountId}", "security:read"],
  ["createServiceAccount", "POST service-accounts", "person", "save_service_account"],
  ["changeServiceAccount", "PATCH service-accounts/{serviceAccountId}", "person", "save_service_account"],
  ["revokeServiceAccount", "DELETE service-accounts/{serviceAccountId}", "person", "revoke_service_account"],
  ["rotateServiceAccountSecret", "POST service-accounts/{serviceAccountId}/secrets", "person", "rotate_service_secret"],
  ["addServiceAccountKey", "POST service-accounts/{serviceAccountId}/keys", "person", "add_service_key"],
  [
    "removeServiceAccountCredential",
    "DELETE service-accounts/{serviceAccountId}/credentials/{credentialId}",
    "person",
    "remove_service_credential",
  ],

  ["reconcileBooks", "GET books/reconciliation", "books"],
  ["listBookCosts", "GET books/costs", "books"],
  ["getCostImport", "GET books/imports/{importId}", "books"],
  ["listCostImporters", "GET books/importers", "books"],
  ["requestCostImport", "POST books/importers/{provider}/request", "books", "request_cost_import"],
  ["confirmMissedDays", "POST books/importers/{provider}/missed-days", "books", "confirm_missed_days"],
  ["listBookInvoices", "GET books/invoices", "books"],
  ["getBookInvoice", "GET books/invoices/{invoiceId}", "books"],
  ["recordBookInvoice", "POST books/invoices", "books", "record_provider_invoice"],
  ["listStatements", "GET books/statements", "books"],
  ["getStatement", "GET books/statements/{statementId}", "books"],
  ["reopenMonth", "POST books/statements/{statementId}/reopen", "books", "reopen_month"],
  ["getCloseChecklist", "GET books/months/{month}/close", "books"],
  ["closeMonth", "POST books/months/{month}/close", "books", "close_month"],
  ["explainBookMonth", "GET books/months/{month}/providers/{provider}", "books"],
  ["compareUsageHours", "GET books/days/{day}/hours/{provider}", "books"],
  ["fetchUsageHours", "POST books/days/{day}/hours/{provider}", "books", "store_usage_hours"],
  ["markGatewayKey", "PATCH books/gateway-keys/{provider}", "books", "mark_gateway_key"],
  ["compareGenerations", "GET books/days/{day}/generations", "books"],
  ["fetchGenerations", "POST books/days/{day}/generations", "books", "store_generation_costs"],
] as const satisfies readonly AdminOperationRow[];

type Row = (typeof adminOperations)[number];
export type AdminOperationId = Row[0];

type IdOfRead<Each> = Each extends readonly [infer Id, `GET ${string}`, ...unknown[]] ? Id : never;
type IdOfAct<Each> = Each extends
  | readonly [infer Id, string, "person" | "books", ...unknown[]]
  | readonly [infer Id, string, string]
  ? Id
  : never;
/** The operations that only read. */
export type AdminReadId = IdOfRead<Row>;
/** The operations for people, of the books, and without a change, which do what a page does. */
export type AdminActId = Exclude<IdOfAct<Row>, AdminReadId>;
/** The other changes, which are made once for each idempotency key. */
export type AdminChangeId = Exclude<AdminOperationId, AdminReadId | AdminActId>;

/** An operation, with its path written as in OpenAPI documents. */
export interface AdminOperation {
  id: AdminOperationId;
  method: Method;
  path: string;
  scope: AdminScope;
  change: string | undefined;
}

/** Returns every operation, optionally only those at a route's path. */
export function listAdminOperations(pattern?: string): AdminOperation[] {
  const rows: readonly AdminOperationRow[] = adminOperations;
  const all = rows.map(([id, call, scope, change]): AdminOperation => {
    const [method, path] = call.split(" ") as [Method, string];
    return { id: id as AdminOperationId, method, path: `${adminBasePath}/${path}`, scope, change };
  });
  return pattern === undefined ? all : all.filter(({ path }) => toPattern(path) === pattern);
}

/** The paths of the admin API as in the route table, each once. */
export const adminPatterns: readonly string[] = [...new Set(listAdminOperations().map(({ path }) => toPattern(path)))];

/** Returns the methods at a route's path. */
export function adminMethods(pattern: string): string[] {
  const methods: string[] = listAdminOperations(pattern).map(({ method }) => method);
  return methods.includes("GET") ? [...methods, "HEAD"] : methods;
}

/** Writes a path as in the route table: `/api/plans/{planId}` becomes `api/plans/:planId`. */
function toPattern(path: string): string {
  return path.slice(1).replaceAll(/\{(\w+)\}/g, ":$1");
}
