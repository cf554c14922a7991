-- Reworded comments, mostly generated from supabase/schemas by npm run db:migration. The functions and the trigger with a
-- guard exist only in databases with the optional migrations.

comment on function ai.account_workspaces(ai.platform_part[], text) is
  'Returns the workspaces that have runs with the given account, at most 100. For a null account, returns workspaces '
  'with any runs: [{ workspaceId, name, meteredUsd, daysWithoutRuns }]. daysWithoutRuns lists the days on which the '
  'account''s bill exceeds its metered cost, but the workspace has no matching runs. The workspaces with the most of '
  'these days come first.';

comment on function ai.app_caller(jsonb) is
  'Returns the caller of a request that a registered app sends. The credential must be an app''s token or a key that '
  'is bound to an app, and the request must name the workspace. The app is derived only from the credential. refused '
  'is the reason why the call is refused, or null. Not granted to any role.';

comment on function ai.book_clashes(uuid, timestamptz, timestamptz) is
  'Returns at most 100 records of a window that are stored in several copies, each with a different spelling of the '
  'provider''s name: [{ kind: cost or invoice, provider, spellings, accountId, externalRunId or reference }]. Only one'
  ' copy counts: the last observed copy of a cost, or the first recorded copy of an invoice.';

comment on function ai.booked_costs(uuid, timestamptz, timestamptz) is
  'Returns the imported and invoiced costs that count in a book. An imported cost is one row with its UTC day. An '
  'invoice has one row for each month that it covers, with the first day of the month and the amount for the month''s '
  'days (ai.invoice_days). Replaced invoices do not count.';

comment on function ai.budget_scopes(ai.caller, text) is
  'Returns the scopes of the budgets that apply to a call with the given label, or null if no budget applies. Looks up'
  ' each budget by its key, because a workspace may have budgets for many members and labels.';

comment on function ai.budget_subject(text, uuid, uuid, uuid, uuid, text) is
  'Returns the id of a budget''s subject for a run. The scope states whether the subject is the key lineage, the app, '
  'the member, the label or the workspace.';

comment on function ai.budget_threshold(ai.budgets) is
  'Returns the highest of 50, 80 and 100 percent that a budget''s spend has reached, or 0. Percentages are not '
  'rounded. A budget that refuses calls also counts as 100 percent, even if a remainder too small for another call is '
  'left.';

comment on function ai.call_refusal(ai.caller, text) is
  'Returns the refusal of a caller that may not make calls, otherwise null. If a kind is given, also checks that the '
  'caller may make calls of that kind.';

comment on function ai.change_workspace_policy(uuid, uuid, jsonb) is
  'Changes the given fields of a workspace''s policy, for a member with manage_ai_policy: allowedModels, deniedModels,'
  ' requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, '
  'appBudgets [{ appId, monthlyBudgetUsd }]. null removes a limit. readAt is the updatedAt of the policy that the '
  'member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy), changed_meanwhile'
  ' (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are already in '
  'either list are never unknown. Each change adds an entry to the workspace''s audit log.';

comment on function ai.collect_locks(ai.priced_call[]) is
  'Returns the rows that the calls must lock. A refused call locks no rows.';

comment on function ai.compare_cost_file(uuid, uuid, jsonb) is
  'Compares the daily totals of a valid document, by account and day, with the stored records that they correct. Also '
  'returns the days in the document''s range that earlier files had and the document lacks. The change of such a day '
  'is "cleared" if the document''s clear is true, and "remaining" otherwise. Not granted to any role.';

comment on function ai.compute_settlement(ai.run_outcome, ai.runs, timestamptz) is
  'Applies an outcome to a locked run. Returns the closed run with the amounts due, or null if the outcome changes '
  'nothing. If idle_since is given, also returns null unless the run is open and has had no heartbeat since then.';

comment on function ai.consume_rate_limit is
  'Counts a request and its reserved tokens in a rate window, unless that would exceed a limit. The caller has locked '
  'the window and made it current with ai.lock_rows. Extending a run''s reservation adds tokens but does not count as '
  'another request.';

comment on function ai.cost_clashes(uuid) is
  'Returns a book''s costs that are stored more than once, under different spellings of the provider''s name. Only the'
  ' most recently observed row of each cost counts. Not granted to any role.';

comment on function ai.cost_file_state(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns a hash of the result of ai.compare_cost_file. The hash changes if the file changes, or if the records that '
  'the file corrects or replaces change. Not granted to any role.';

comment on function ai.cost_import_summary(uuid) is
  'Returns the file that a record was imported with, the file''s exchange rates, and who imported the file. by is '
  'person or operator. name is null for the operator and for a deleted account. Not granted to any role.';

comment on function ai.costs_replaced_by_file(uuid, uuid, jsonb, ai.cost_file_day[]) is
  'Returns the number and the sum of the records that stop counting when a file is imported, because the file''s daily'
  ' totals replace them: { records, amountUsd }. Not granted to any role.';

comment on function ai.credit_level(ai.credit_accounts, numeric) is
  'Returns empty, low or funded. empty: the balance is used up, or a call was refused in the last hour and the '
  'available credits are below the threshold, or below 1,000 if the threshold is 0. A call that is refused with more '
  'credits available was simply very large. low: the balance is below the threshold. funded: any other balance.';

comment on function ai.delete_expired_content(integer) is
  'Deletes content that the workspace''s current policy no longer keeps, content of closed workspaces, and expired '
  'idempotency keys. The limit applies separately to runs and to keys. Returns the number of runs whose content it '
  'deleted. Returns 0 if another call is in progress.';

comment on function ai.describe_run_content(uuid, uuid, uuid) is
  'For a member with manage_ai_policy, returns whether a run''s content is stored, but not the content itself. Returns'
  ' { outcome: kept, deletedFrom } or { outcome: none | not_allowed }.';

comment on function ai.end_connection(uuid, uuid) is
  'Revokes a connection and its keys. If the actor is not the connection''s member, also withdraws the member''s '
  'approval. Returns false if the connection does not exist or was already revoked.';

comment on function ai.find_replacement(uuid, uuid, jsonb) is
  'Returns the first recorded invoice whose provider, account and replaces equal the record''s. Returns nulls if there'
  ' is none.';

comment on function ai.further_fees_usd(jsonb, bigint) is
  'Returns the request fees of a call beyond the first fee, which ai.maximum_cost_usd already includes. fee_requests '
  'is the maximum number of requests with a fee that the call may make.';

comment on function ai.idempotent_refusal(ai.idempotency_keys, bytea) is
  'Returns the refusal of a call whose idempotency key was already used. The refused call never reaches a provider and'
  ' costs nothing. The refusal includes the first call''s answer if it was stored.';

do $guard$
begin
  if to_regprocedure('ai.import_provider_invoice(jsonb)') is not null then
    comment on function ai.import_provider_invoice(jsonb) is
      'Stores an invoice that an app sends. Returns the result of ai.store_provider_invoice, or { refused } if the '
      'credential does not allow imports.';
  end if;
end
$guard$;

comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'Compares an invoice with its provider''s metered and imported cost for the days that the invoice covers '
  '(ai.invoice_days). Imported cost is only that of the invoice''s account. Metered cost leaves out runs that name '
  'another account. Also returns the total of the account''s other invoices for these days, and the difference between'
  ' all of the account''s invoices and the imported cost. Ignores replaced invoices. Returns null if the invoice '
  'covers more than 366 days. Not granted to any role.';

do $guard$
begin
  if to_regprocedure('ai.invoice_days(date, date, date)') is not null then
    comment on function ai.invoice_days(date, date, date) is
      'Returns the days that an invoice covers. A missing start becomes the first day of the end''s month. A missing end '
      'becomes the last day of the start''s month. Without a period, returns the month in which the invoice was issued.';
  end if;
end
$guard$;

comment on function ai.invoice_review(uuid, uuid, jsonb) is
  'Compares an invoice with a book, for a person to review before the invoice is stored permanently. Returns { '
  'outcome: reviewed, reviewedAt, appName, kept, differs, comparison }, { outcome: not_issued_yet } or { outcome: '
  'cannot_replace, param, message }. kept is the stored invoice with the same key, if any. differs lists the fields in'
  ' which kept is different, except for the time of the review. comparison is ai.invoice_comparison. Writes nothing. '
  'Not granted to any role.';

comment on function ai.invoice_share(ai.invoice_book_entries, text) is
  'Returns the share of an invoice that belongs to a month (YYYY-MM), with the first and last day of that share: { '
  'inMonth: { amountUsd, firstDay, lastDay } }. The invoice''s days must overlap the month. The amount of a credit '
  'note is negative. Returns null if the month is null. Not granted to any role.';

comment on function ai.invoice_summary(ai.invoice_book_entries) is
  'Returns an invoice as JSON. In the platform''s book, appId is ai.platform_book() and appName is null.';

comment on function ai.key_cost_since(uuid, uuid[], timestamptz) is
  'Returns the cost of each key lineage (all keys rotated from one another) since the start of a UTC day. Reads daily '
  'sums where they are up to date, and the runs elsewhere. Returns no row for a lineage without runs.';

comment on function ai.key_issue_permission(uuid, uuid, boolean) is
  'Returns allowed, not_allowed or not_approved. not_allowed: the member lacks manage_ai_keys. For an agent''s key, '
  'ai.may_connect_agents is sufficient. not_approved: no platform admin has approved the workspace.';

comment on function ai.latency_bucket(integer) is
  'Returns the histogram bucket of a duration. Bucket 0 is for durations below 1 ms. Bucket n, from 1 to 80, is for '
  'durations from 2^((n - 1) / 4) to 2^(n / 4) ms, so its upper bound is 19% above its lower bound. Bucket 80 also '
  'includes longer durations, above 17 minutes.';

comment on function ai.latency_quantiles(numeric) is
  'Estimates the median and 95th percentile of run durations, in ms, from a histogram (a sum of ai.latency_mark). Each'
  ' estimate is in the same bucket as the exact value, so its error is at most the width of a bucket, 19%. Returns '
  'nulls if the histogram contains no run.';

comment on function ai.limit_refusal(text, ai.caller) is
  'Creates the refusal of a call that exceeds a rate limit, a budget or the balance. The refusal includes all rate '
  'limits of the caller and their current counts.';

comment on function ai.live_usage_ranges(uuid, timestamptz, timestamptz, boolean) is
  'Returns the parts of a window that must be read from runs: days that are not sealed, days that changed after they '
  'were sealed, and days that are only partly in the window. If detailed, also returns days whose stored sums lack '
  'members and labels.';

comment on function ai.may_email_admins(uuid, ai.key_approval_requests) is
  'Returns whether infrastructure admins receive an email about a new request. They receive none if the previous '
  'request was withdrawn and they were emailed about it in the last 24 hours. They also receive none if they were '
  'emailed about five requests by the same member in the last 24 hours. The admins'' queue lists every request.';

comment on function ai.metered_costs(uuid, timestamptz, timestamptz) is
  'Returns the metered cost of a book''s runs, in rows that the caller must sum. A workspace''s book covers the '
  'workspace''s runs, and the platform''s book covers all runs. The platform''s book is read by whole UTC days, and '
  'all of its costs get the month of window_from. Each row names the provider (ai.billing_provider) and, if the runs '
  'name one, the billing account.';

comment on function ai.payer_id(ai.caller) is
  'Returns the id of the workspace or member whose credits pay for a caller''s calls. Returns null for a registered '
  'app, whose calls cost no credits. An app calls with its own tokens or with keys that are bound to it.';

comment on function ai.paying_plan(text, uuid) is
  'Returns the plan under which a workspace or a member pays, or no row if no plan charges them.';

comment on function ai.platform_causes(ai.platform_part[]) is
  'Returns likely causes of a difference between a provider''s bill and the metered cost, the likeliest first: [{ '
  'kind, amountUsd, … }]. Returns the 20 largest causes of each kind. amountUsd is the cause''s share of the '
  'difference (billed minus metered), or null if unknown. The kinds are workspace_costs_above_metered { workspaceId, '
  'name, days: [{ day, amountUsd }] }, account_not_metered { accountId }, days_not_metered and days_not_imported { '
  'accountId, days }, account_not_imported and account_differs { accountId, workspaces (ai.account_workspaces) }, '
  'workspace_runs_closed and workspace_runs_estimated { workspaceId, name, runs }, and invoice_share (the invoiced '
  'cost that other causes do not explain). If a run or record names no account, all accounts are compared as one and '
  'accountId is null.';

comment on function ai.platform_usage(date, date, text) is
  'Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by provider and billing account. '
  'With of_provider (a result of ai.billing_provider), returns only that provider''s usage, also grouped by workspace '
  'and day. Runs closed by the sweep name no billing provider, so the usage of every of_provider includes all of them.'
  ' Without of_provider, workspace_id and day are null. Not granted to any role.';

comment on function ai.platform_workspaces(ai.platform_part[]) is
  'Returns a provider''s figures for a month by workspace and provider account, the largest difference first: [{ '
  'workspaceId, name (null once deleted), accountId (null for runs that name no account), meteredUsd, runs, '
  'estimatedRuns, closedRuns, importedUsd, invoicedUsd, differenceUsd }]. importedUsd and invoicedUsd are from the '
  'workspace''s own book. differenceUsd is the imported cost minus the metered cost, or null if the workspace has no '
  'imports.';

comment on function ai.preview_cost_import(uuid, uuid, uuid, jsonb) is
  'Returns the result of ai.describe_cost_file. Returns { outcome: not_allowed } if the member lacks the permission '
  'use_ai_studio, or { outcome: app_not_linked } if the app is not linked to the workspace.';

comment on function ai.priced_routes(text, text[]) is
  'Returns a model''s routes to the given providers in order, with their current prices. Omits routes without a price.'
  ' Returns null if no route is left.';

comment on function ai.principal_id(ai.caller) is
  'Returns the id of the owner of a call''s idempotency keys: the API key''s lineage, the app or the person.';

comment on function ai.provider_cost_records(uuid, timestamptz, timestamptz, jsonb, integer, jsonb) is
  'Returns a page of imported costs of a half-open range, newest first. Each cost has its file and its amount before '
  'currency conversion. replacedBy is the externalRunId of the record that counts instead, or null. replaces is the '
  'number and amount of the records that a daily total replaces. The filter may have provider and accountId. A null '
  'accountId selects costs without an account.';

comment on function ai.provider_cost_totals(uuid, timestamptz, timestamptz, jsonb) is
  'Returns the total of the imported costs in a half-open range. Records that a daily total replaces are not part of '
  'the total, and are summed separately.';

comment on function ai.provider_costs_in_totals(uuid, timestamptz, timestamptz) is
  'Returns a book''s imported costs of a half-open range, and whether each cost counts in totals. The cost of a run '
  'does not count if its account has a daily record for the day of the run, even if the record begins before the '
  'range. The totals of adjacent ranges therefore add up. A daily record of a service does not count if the account '
  'has a total for that day. Of rows that differ only in the case of the provider''s name, the last observed counts.';

comment on function ai.provider_name(text) is
  'Returns a provider''s name in lower case, as names are stored and compared. Older rows still contain the name '
  'exactly as it was sent. Sets no search_path, so Postgres can inline the function and use the indexes on '
  'lower(provider).';

comment on function ai.rate_limit_headers(timestamptz, bigint[]) is
  'Returns the limits of a call as JSON text: {"minute", "counts"}. minute is the start of the rate window. counts is '
  'a flat list of four pairs, each a limit and a count: the key''s requests, the key''s tokens, the workspace''s '
  'requests and the workspace''s tokens. A limit is null if there is none.';

comment on function ai.read_invoice(uuid, uuid) is
  'Returns one invoice of a book, with its recorder (ai.invoice_recorder) and its comparison (ai.invoice_comparison): '
  '{ outcome: read, invoice, recorded, comparison }, or { outcome: not_found }. Not granted to any role.';

comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'Returns a workspace''s usage in a range, for a member with use_ai_studio: totals, the totals of the previous range,'
  ' and rows by day, model, feature, key, app, member or label. Days are sorted newest first. All other rows are '
  'sorted by amount, the largest first. A day''s key is the number of days since the start of the range. An API key''s'
  ' key is its lineage. For labels, the key is empty for runs without a label and * for the labels beyond the 10,000 '
  'most expensive of a day. For models, series contains the daily usage of the six largest models and, with model '
  'null, of all other models together. deductions contains the credits deducted without a run, by day.';

comment on function ai.read_policy_options(uuid, uuid) is
  'Returns what a member with use_ai_studio or manage_ai_keys can choose from in a workspace''s policy and keys: the '
  'catalogue''s models and the plan''s rate limits. granted is true for a model that the plan or the workspace''s own '
  'grant allows. permitted is true for a model that the workspace''s policy allows.';

comment on function ai.rebuild_changed_usage_days(integer) is
  'Summarizes sealed days again if their runs changed later, at most max_days days. Returns the number of summarized '
  'days.';

comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'Returns a page of months and providers in the window of ai.reconciled_window, the latest month first. Each row has '
  'the provider''s accounts and two differences: imported less metered, and invoiced less imported. If the workspace '
  'hides provider cost, every meteredUsd is null, and only providers with imports or invoices are listed. An '
  'account''s meteredUsd is also null if a run of the same month and provider has a cost but names no account. clashes'
  ' is the result of ai.book_clashes.';

comment on function ai.record_budget_alerts() is
  'Records the highest threshold that each budget has crossed since the last sweep. Reads ai.budgets without a lock. '
  'Records each threshold at most once a month, unless a raised limit puts the spend below the threshold and the '
  'budget then crosses it again.';

comment on function ai.record_invoice_activity(uuid, uuid, uuid, jsonb) is
  'Adds a recorded invoice to the workspace''s audit log.';

comment on function ai.record_long_running_runs(timestamptz, timestamptz) is
  'Records the open runs that began after seen_until. Stops at the cutoff, or one minute after the first run in that '
  'range. Returns the time at which it stopped.';

comment on function ai.refused_replacement(uuid, uuid, jsonb) is
  'If a record cannot replace the invoice that it names in replaces, returns the error { param, message }. Returns '
  'null otherwise. Not granted to any role.';

comment on function ai.reject_incomplete_ledger_entry() is
  'Rejects a usage or adjustment entry without a run, and any ledger entry that has only one of run_id and '
  'run_created_at.';

comment on function ai.reject_price_change() is
  'Rejects every change to a price, because runs may have been charged this price. Only the end of its validity may '
  'change, until that end has passed.';

comment on function ai.replaced_already(jsonb, ai.invoice_book_entries) is
  'Returns the error { param, message } of a record that would replace an invoice that already has a replacement. Not '
  'granted to any role.';

comment on function ai.reserve_budget(text, uuid, uuid, numeric, boolean) is
  'Reserves an amount in a monthly budget and returns true. Returns false if the budget is enforced and its limit is 0'
  ' or would be exceeded. Stores the time of the month''s first refusal, and of later refusals at most once a minute.';

comment on function ai.reserved_tokens(ai.run_request, ai.token_use, bigint) is
  'Returns the tokens that a call adds to its rate windows until it is settled: its maximum input plus its output '
  'limit. Without a stated output limit, the output is at most 500 tokens per choice and no more than fits in the '
  'token limit.';

comment on function ai.review_provider_invoice(uuid, uuid, uuid, jsonb) is
  'Returns the result of ai.invoice_review, { outcome: not_allowed } if the member lacks the permission use_ai_studio,'
  ' or { outcome: app_not_linked } if the app is not linked to the workspace.';

comment on function ai.roll_up_usage(integer) is
  'Updates ai.usage_daily and ai.usage_labels_daily. Summarizes new days, changed days, and older days whose summary '
  'lacks details, at most max_days of each. Only one caller runs at a time; others return 0. Returns the number of '
  'summarized days.';

comment on function ai.rotate_key(uuid, uuid, uuid, integer, text, text) is
  'Replaces a key with a new one. The new key keeps all limits and bindings. The spend of both keys is counted '
  'together. The old key works until the overlap ends. Outcomes: issued (with key), not_allowed, not_approved, '
  'not_found, not_active, agent_key. agent_key: only the coding agent can renew this key.';

comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Uses the daily sums to find where ai.list_runs can start to search backwards for runs that match its filter and are'
  ' older than the given moment. Returns a time that is not later than the moment, or null if no earlier run can '
  'match.';

comment on function ai.store_key(uuid, uuid, jsonb, text, text, uuid, uuid) is
  'Stores a new key. The caller must have checked ai.key_issue_permission. If the key replaces an earlier key, lineage'
  ' is given and the creation is not logged. connection_id is the coding agent''s connection if the key belongs to an '
  'agent.';

comment on function ai.store_provider_cost(uuid, uuid, jsonb) is
  'Stores one reported cost. Returns { outcome: stored | corrected | unchanged | stale } or { refused }. A record with'
  ' a newer observation time corrects the stored record. A record with the same observation time and different content'
  ' is refused as a conflict. Finds the stored record regardless of the case of the provider''s name. The caller '
  'derives workspace and app from the credential and has validated the record. Not granted to any role.';

comment on function ai.sum_labels(uuid, timestamptz, timestamptz) is
  'Sums a workspace''s runs in a half-open time range. Groups them by day and label (X-Platform-Entity-Id), in the '
  'format of ai.usage_labels_daily. For each day, returns the 10,000 most expensive labels and one sum for all others.';

comment on function ai.token_limit_refusal(ai.caller, ai.token_use, bigint) is
  'Returns the refusal of a call whose token count exceeds the per-minute limit of its key or workspace. The call '
  'would not fit in any later minute either.';

comment on function ai.unknown_run_filter(uuid, jsonb) is
  'Checks the filters of ai.list_runs and returns the name of the first filter whose value does not exist. Returns '
  'null if all values exist. Treats every provider as unknown if the workspace hides providers. Treats former members '
  'and apps of the workspace as known, because they can have runs.';

comment on function ai.usage_between(uuid, timestamptz, timestamptz, boolean) is
  'Returns a workspace''s usage in a half-open window, in rows that callers group. Reads daily sums for sealed, '
  'unchanged days that are completely in the window, and runs for the rest. One statement reads both, so that each run'
  ' counts exactly once. by_member is for callers that group by actor_id: days whose sums lack actor_id are then read '
  'from runs.';

comment on function ai.usage_key(ai.usage_daily, text, date, integer) is
  'Returns the key of the row to which a daily sum belongs. For rows by day, the key is the number of days since the '
  'start of the range, so that two ranges can be compared. One row covers days_each days.';

comment on function ai.workspaces_with_books() is
  'Returns the workspaces whose own books contain imported costs or invoices.';

comment on function ai.write_cost_file_day(uuid, uuid, uuid, ai.cost_file_day) is
  'Writes one day of a cost file. Raises serialization_failure if a concurrent import has changed or added the day''s '
  'stored record. Not granted to any role.';

comment on function private.access_state(uuid, uuid) is
  'Returns { confirmedAt, unconfirmed: [id] }. confirmedAt is when the owner last confirmed the list that '
  'private.account_access returns. unconfirmed contains the ids of the unconfirmed additions.';

comment on function private.account_access(uuid, uuid, integer) is
  'Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent, '
  'provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, '
  'isNew } }. Returns null if the account doesn''t exist. ways contains at most most_sessions sessions: the calling '
  'session, then the most recently refreshed. otherSessions counts the remaining sessions, up to 1,001. kind is '
  'password, identity, passkey, authenticator, session or app. isNew is true if the entry was added after the owner '
  'last confirmed the list or, without a confirmation, after the account was created. In a session that began with a '
  'password reset or recovery, only confirmations by such sessions count. device and address are null if no event '
  'records where the entry was added.';

comment on function private.account_of_link(text, text) is
  'Returns the account that a mailed link signs in to, or no row if the link was used. For security definer functions;'
  ' not granted to any role.';

comment on function private.activate_account(jsonb) is
  'Completes a switch in one transaction: stores the account''s rotated session with store_account_session and makes '
  'the account active. Takes { leaseId, secret, nextHash (hex) } and the fields that store_account_session takes. '
  'Returns { status: activated, rotated }, { status: changed, current } if another rotation came first, or { status: '
  'lost } if the switch no longer holds the lease. rotated is true if the given secret is now the device''s previous '
  'secret and still accepted.';

comment on function private.add_account(jsonb) is
  'Stores a sign-in for at most 15 minutes, until the browser presents the sign-in''s secret. Takes { deviceId, '
  'secret, secretHash (hex), userId, sessionId, sealed, keyId, tag }. Returns { status: kept | unknown (the device is '
  'unknown) | full (the device has 10 other accounts) }. Idempotent.';

comment on function private.allow_recovery_repeat(uuid, bytea, uuid, boolean) is
  'Lets the same browser use a consumed credential again if the response was lost (private.is_recovery_open_to). Call '
  'this function after a recovery has created its session. Before the call, concurrent callers are refused.';

comment on function private.allows_device_grant(uuid) is
  'Returns whether an app is an enabled OpenID client that is currently registered for the device grant. Not granted '
  'to any role, so only security definer functions can call it.';

comment on function private.announce_addition(uuid, text) is
  'Announces that an authenticator or passkey will be added to an account. The announcement is valid for one minute. '
  'target is the authenticator''s id, or the passkey''s credential id in hexadecimal. Call this after step-up, before '
  'the backend makes the addition.';

comment on function private.attempt_buckets(text, text, cidr) is
  'Returns the rate limit buckets that count an attempt. Omits buckets that need an account or an address if the '
  'attempt has none.';

comment on function private.attempt_digest(text, text) is
  'Returns the keyed digest of a subject, such as an account or an address. Attempts are counted by this digest.';

comment on function private.begin_mfa_recovery(uuid, uuid, text) is
  'Begins an MFA recovery with a code. To resume a recovery that failed midway, pass the same code. The session that '
  'used the code may pass null instead. Returns the code''s id. Returns null if no code matches, the policy is '
  'malformed, or another caller began within the last 30 s. Marks the recovery in the account''s policy, which blocks '
  'the account until end_mfa_recovery is called. Advances the policy''s boundary. Ends all other sessions, all app '
  'sessions and all app tokens.';

comment on function private.block_duration(integer) is
  'Returns how long an IP address stays blocked at a block level. Blocks make guessing pointless, but last at most 24 '
  'hours because another user may get the address.';

comment on function private.change_app(jsonb) is
  'Changes an app. The change is { actor, name, version (from private.read_app), step, reason, requestId, ip }. The '
  'step edit also has displayName, scopes, origins and logoutUrl; link and unlink have workspace; rotate has '
  'secretHash (the text of a bytea) and overlapSeconds; enable and disable have no more fields. An OpenID client '
  'allows only enable, disable and rotate. Returns {} or { refused: forbidden | not_found | conflict (the version is '
  'outdated; last is private.last_admin_action) | taken (another app has one of the origins) | invalid | no_workspace '
  '}.';

comment on function private.change_model_route(jsonb) is
  'Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is { '
  'actor, model, version (private.model_version), place (the route''s current position, or null to add a route), '
  'route, reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel,'
  ' enabled, trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds '
  '}. Does not change the provider''s prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid '
  '}, or { refused: conflict, last (private.last_admin_action) }.';

comment on function private.check_recovery_credential(private.recovery_credentials, bytea) is
  'Returns good, or the reason for the refusal. Counts a wrong code. The fifth wrong code within 24 hours blocks all '
  'codes for the email for 24 hours. The caller must have locked the email''s row in recovery_code_guesses and the '
  'credential''s row. Called only by definer functions; not granted to any role.';

comment on function private.claim_logout_notices(integer) is
  'Claims the notices that are due, each for only one caller. Schedules the retries after 5 seconds, 30 seconds, 2 '
  'minutes and 10 minutes, and then every hour. is_last is true if the notice is at least a day old, so this attempt '
  'is its last.';

comment on function private.claim_qr_challenge(jsonb) is
  'Claims an approved challenge for the session that requested it: { id, secretHash, claims }. Only one caller gets '
  'the result claimed, and must complete the challenge within 30 s. Other callers get the challenge''s public state, '
  'mfa_required or not_found. Rejects the challenge permanently if the approver has signed out or no longer satisfies '
  'the account''s policy.';

comment on function private.clear_unproven_metadata() is
  'When an account''s email is first confirmed, removes metadata that the owner of the email did not write.';

comment on function private.close_orphaned_workspaces() is
  'Closes workspaces when a member''s account is deleted, so that the workspaces'' keys stop working. The person''s '
  'personal workspace stays open if it has another owner. Any other workspace stays open if it has another member. A '
  'closed personal workspace is renamed to "Deleted workspace".';

comment on function private.complete_attempt(uuid, text) is
  'Records the outcome of an attempt: succeeded, failed, or void if the attempt was not made. Refunds void attempts '
  'and successful sign-ins. A successful sign-in also deletes the account''s failures from this address. Other '
  'successful attempts stay counted. A failed attempt counts against the address. Returns false if the outcome was '
  'already recorded or the attempt is too old.';

comment on function private.consume_cross_app_token(bytea, uuid, uuid, text) is
  'Redeems a handoff token in one statement. Of many concurrent callers, one gets the token''s id, and the others get '
  'null. proof must be exactly the stored text that the web server checked. For definers; not granted to any role.';

comment on function private.consume_recovery_credential(jsonb) is
  'Consumes a credential. Takes { tokenHash } or { email, codeHash }, with browserHash, ip, userAgent and requestId; '
  'hashes are in hex. Of many concurrent calls, only one returns { outcome: consumed, credentialId, overrideId, email,'
  ' userId or null, banned, confirmed, replacedPassword, waitMs }. All others return { outcome: rejected }. The reason'
  ' for a rejection is recorded but not returned. replacedPassword is true if an earlier use replaced the password. '
  'Ends every session, app session and app token of the account. The account''s MFA policy then accepts a new session '
  'only if it is created after waitMs.';

comment on function private.continue_account_session(jsonb) is
  'Replaces an account''s session with a new session that needs no other sign-in, for example after a QR handoff. '
  'Takes { deviceId, secret, userId, sessionId, sealed, keyId, tag, inPlaceOf }. Returns { status: kept | unknown | '
  'over }. unknown means that the device is unknown. over means that the browser has signed out of the session to '
  'replace, or already has a different session for the account. The device''s secret does not change, so a browser '
  'that lost the response still gets the new session from the vault.';

comment on function private.count_sign_in_methods(uuid, text[], uuid[], boolean, uuid[]) is
  'Returns the number of usable sign-in methods that an account would have without the given identities, passkeys and '
  'password. Counts an unconfirmed identity only if its id is in confirming. Called only by security definer '
  'functions. Not granted to any role.';

comment on function private.decide_qr_challenge(jsonb) is
  'Approves or rejects a QR challenge on behalf of a phone: { id, secretHash, claims, approve, device }. Returns '
  'approved, rejected, not_found, forbidden, mfa_required, expired or conflict. forbidden: the phone is signed in to '
  'another account, or its session is the one that requested the handoff. conflict: the challenge was already decided.';

comment on function private.default_display_name(jsonb, text) is
  'Returns a display name for a person who has not chosen one. Takes it from the metadata or the email, and replaces '
  'control characters with spaces.';

comment on function private.delete_account(uuid, text) is
  'Deletes an account with its dependent rows, unless a workspace would be left without an owner. Returns { deleted, '
  'blockers: [{ workspaceId, name, members }] }. Runs, ledger entries, costs and invoices remain. They identify the '
  'account only by its id.';

comment on function private.delete_model(jsonb) is
  'Deletes a model that was never enabled, with its routes, prices and grants. The change is { actor, model, version, '
  'reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | used | conflict }. conflict comes with '
  'last, the last admin action on the model.';

comment on function private.describe_database() is
  'Returns the facts that the doctor compares with the release: the version of Postgres (server_version_num), the '
  'versions of the recorded migrations, private.describe_objects() and private.describe_auth_triggers(). The stack '
  'makes the same comparison when it starts with a hosted database.';

comment on function private.device_secret_status(private.account_devices, text) is
  'Returns the status of a device secret: current, previous, spent or unknown. A previous secret stays valid for '
  'everything until 30 seconds after the browser first presents the current one. After a sign-in replaces a secret, '
  'the old secret is spent for one minute. A spent secret gives no access, but requests in flight may use it to add '
  'another account or to sign the browser out.';

comment on function private.discard_account_session(uuid, uuid, text, boolean) is
  'Discards an account''s session that has ended or cannot be decrypted. If listed is true, the account stays in the '
  'list and requires a new sign-in. Returns false if another request rotated the session first.';

comment on function private.discard_session(uuid, uuid) is
  'Ends a session that our server created but no browser received, such as the session that a password check creates. '
  'Also removes the session''s sign-in from the account''s activity. Returns true if the session existed.';

comment on function private.disconnect_agent(bytea, uuid, uuid) is
  'Revokes a connection that was made with the token''s login, and the connection''s keys. Returns {}, also if the '
  'connection was already revoked, or { refused }. refused is not_found, or comes from ai.find_agent_login.';

comment on function private.end_additions(uuid, uuid[]) is
  'Ends a browser''s pending sign-ins to the given accounts, or to all accounts if user_ids is null. A sign-in is '
  'pending until the browser presents its secret. The caller must have locked the accounts. Returns the sessions that '
  'were still alive: [{ userId, sessionId }].';

comment on function private.end_dependent_sessions(uuid, uuid, jsonb) is
  'Ends the sessions that the owner removed from the list of private.account_access, and the sessions that signed in '
  'with a removed method. Returns [{ id, device, userAgent }] of the ended sessions. Not granted to any role, so only '
  'security definer functions can call it.';

comment on function private.end_mfa_recovery(uuid, boolean) is
  'Ends a recovery that begin_mfa_recovery began. If completed is true and the account has no factor left, completes '
  'the recovery, and unblocks the account unless its MFA policy changed during the recovery. Otherwise, the account '
  'stays blocked and the recovery can be resumed immediately. Returns whether the recovery is completed.';

comment on function private.end_password_replacements() is
  'When an account''s password changes, lifts the restriction set by private.require_password_replacement.';

comment on function private.explain_platform_month(date, text) is
  'Explains a provider''s costs in the platform''s book for one month: { outcome: explained, month, provider, '
  'workspaces (ai.platform_workspaces), days: [{ day, accountId, meteredUsd, importedUsd }], causes '
  '(ai.platform_causes) }.';

comment on function private.export_account(uuid, boolean) is
  'Returns everything stored about an account except its AI runs, without secrets, hashes or codes. Returns null if '
  'the account doesn''t exist. If with_parts is false, the lists that private.export_account_part can return are '
  'empty.';

comment on function private.export_account_proper(uuid, boolean) is
  'Returns the fields of private.export_account whose size does not grow with use, and the credits with their ledger.';

comment on function private.export_whole_part(uuid, text, boolean) is
  'Returns all records of one list of an export, or [] if they are not requested. Not granted to any role, so only '
  'security definer functions can call it.';

comment on function private.find_accounts_exactly(text) is
  'Returns the accounts with the given id or full email. Every lookup uses an index. Several accounts may have the '
  'same email, because single sign-on creates separate accounts.';

comment on function private.find_accounts_matching(text, integer) is
  'Returns the accounts whose email or name contains the term, sorted by email. A search for one or two characters may'
  ' read all rows, because such a term has no trigram.';

comment on function private.find_app_caller(bytea, text) is
  'Returns the caller that a token identifies. The token is the token of a central session or the access token of an '
  'OpenID client. refused is unauthenticated, mfa_required, unavailable, insufficient_scope or null. For definers; not'
  ' granted to any role.';

comment on function private.find_renaming_caller(bytea, uuid) is
  'Returns the caller as private.find_app_caller does, and also checks that the caller may rename the workspace. The '
  'field refused may also be not_found or forbidden. For definers; not granted to any role.';

comment on function private.forget_used_recovery() is
  'Lets Auth send the next reset link or sign-in code as soon as the previous one was used or voided, even if our '
  'server generated and used the previous link itself.';

comment on function private.gateway_refusal(private.apps, uuid, text[]) is
  'Returns why the gateway refuses the requests that an app makes in a workspace, or null if it accepts them. scopes '
  'are those of the app''s token or bound key. Called only by definer functions; not granted to any role.';

comment on function private.granted_workspaces(text, integer) is
  'Returns the workspaces that were granted a model separately from their plan, sorted by name. The parameter "most" '
  'limits the number of workspaces.';

comment on function private.guard_addition(uuid, uuid) is
  'Raises an error if the account already has a verified factor other than except_factor. Call this for additions that'
  ' were not announced with private.announce_addition.';

comment on function private.guard_email() is
  'Rejects a new email for an account if the only identities with that address are unconfirmed or unverified, because '
  'password-reset emails could then reach another person. Also rejects removing the email if an unconfirmed identity '
  'has no address.';

comment on function private.handoff_proof(jsonb) is
  'Converts the signed facts of a handoff (private.required_mfa_proof) to the proof that the handoff''s sessions and '
  'tokens store.';

comment on function private.hold_proof(private.mfa_proof) is
  'Locks the account, session and factor that an MFA proof names. Call it before private.proof_status when opening a '
  'login. A concurrent sign-out or factor removal then waits until the login exists, and queues a notice for it. For '
  'definers; not granted to any role.';

comment on function private.is_announced(uuid, text) is
  'Returns whether private.announce_addition announced this authenticator or passkey and the announcement is still '
  'valid. Deletes the announcement.';

comment on function private.is_proof_intact(private.mfa_proof) is
  'Returns whether a login''s proof still holds: its account, session and factor exist, and the account''s MFA policy '
  'has not changed. If the proof no longer holds, the change that ended it has already queued the logout notice. For '
  'definers; not granted to any role.';

comment on function private.is_recovery_open_to(private.recovery_credentials, bytea) is
  'Returns whether a browser can use a recovery credential. Any browser can be the first to use it. After that, only '
  'the same browser can use the credential again, and only until it presents its new session or the session ends.';

comment on function private.is_unconfirmed_identity(uuid) is
  'Returns whether an identity is unconfirmed. An identity linked through our pages is confirmed when the link '
  'completes. An identity linked directly at the backend is confirmed when the owner keeps it.';

comment on function private.is_workspace_member(uuid, uuid) is
  'Returns whether a user is a member of a workspace. Not granted to any role, because it does not check that the user'
  ' is the caller. Security definer functions call it after they derive the user from a credential.';

comment on function private.issue_agent_key(bytea, uuid, uuid, text, text) is
  'Creates the next key of an agent connection. The key works for at most 8 hours and not longer than the '
  'connection''s login. The previous key works for at most 15 more minutes. Outcomes: issued (with expiresAt), '
  'revoked, not_allowed, not_approved, too_many. too_many: the connection has 20 live keys, or the workspace has 200. '
  'Returns { refused } if the login is refused (ai.find_agent_login) or the connection is not_found.';

comment on function private.keep_email_identity(auth.users) is
  'Adds an identity for the account''s own confirmed email if the account has no email identity. Called before another'
  ' identity is removed, because Supabase Auth would otherwise replace the account''s email with that of a remaining '
  'identity. Called only by definer functions, so it is not granted to any role.';

comment on function private.keep_own_claims() is
  'Removes the sign-up''s metadata from an email identity, so that the metadata does not survive the first '
  'confirmation.';

comment on function private.latest_amr_second(jsonb, text[]) is
  'Returns the latest time at which one of the methods was used, in Unix seconds; null if none was used.';

comment on function private.latest_price(text, text, integer) is
  'Returns the id of a model''s newest price at a provider for a minimum number of input tokens, in any service tier. '
  'Returns null if there is none. A request to add a price names the newest price that the admin saw, so a concurrent '
  'change is detected.';

comment on function private.lift_address_block(jsonb) is
  'Lifts an address block. Takes { actor, block, reason, requestId, ip }. Returns {} or { refused: forbidden | '
  'not_found | conflict | expired }. If the block was already lifted, returns { refused: conflict, last: { actorEmail,'
  ' at } }, where last describes the latest change that an admin made to the address. Rate limits still apply, and a '
  'lifted block does not lengthen the next one.';

comment on function private.list_agents(bytea, uuid) is
  'Returns a login''s connections in a workspace, and whether the user of the login may create more. Returns { access:'
  ' approved | open | declined | withdrawn | none, connections } or { refused: … | not_found }.';

comment on function private.list_approval_requests(jsonb, integer) is
  'Returns a page of open requests, oldest first: [{ id (of the workspace), name, plan, owners, createdAt, '
  'requestedBy, note }]. To read the next page, pass { createdAt, id } of the last request as after.';

comment on function private.list_catalogue_models(text, text, text[], integer) is
  'Returns a page of the models whose id or name contains the term, or only the model only_id. Each model has its '
  'prices, and its providers in the order in which calls try them. Amounts are text, so no digit is lost. With '
  'page_size, each model has only its current prices. Without page_size, returns all models with all their prices. To '
  'read the next page, pass the sortsAs of the last model as after.';

comment on function private.list_platform_costs(date, jsonb, jsonb, integer) is
  'Returns a page of the platform''s provider costs for the month that contains the given date, in the format of '
  'ai.provider_costs_page.';

comment on function private.list_provider_routes(text[], integer) is
  'Returns a page of the enabled models, each with its routes in order. hasPrice is whether a route has the price that'
  ' calls need (ai.open_prices). failedLastHour and lastFailure describe failed attempts, which are kept for seven '
  'days. For the next page, pass the sortsAs of the last model as after. Without page_size, returns all models.';

comment on function private.list_route_prices() is
  'Returns the routes of all models with their prices: [{ model, displayName, providerId, providerModel, prices }]. '
  'For each service tier and input size, prices has the current price, or else the next price, or else the last price.'
  ' Each price has the fields of private.describe_price and a field latest, the result of private.latest_price.';

comment on function private.live_app_session(bytea) is
  'Returns the session for a token''s hash. Also accepts the previous token within its grace period. Does not check '
  'the session''s proof (private.proof_status). Not granted to any role.';

comment on function private.live_openid_token(bytea) is
  'Returns a valid access token with its login and the scopes that the client''s registration still allows. Does not '
  'check the login''s proof. Called only by security definer functions; not granted to any role.';

comment on function private.lock_app_credentials(uuid) is
  'Locks a person''s account, so that refreshes and revocations of the person''s app credentials run one after '
  'another. Call it before reading any of these credentials. Otherwise, a refresh in progress could create a token '
  'that survives the revocation. For definers; not granted to any role.';

comment on function private.lock_open_request(jsonb, uuid) is
  'Locks the workspace''s open request that was made at requestedAt. Returns false if that request is no longer open.';

comment on function private.mail_wait(text, text, uuid) is
  'Returns how long an account must still wait before another email of a kind may replace the link in its previous '
  'one. Returns null if the account need not wait. Includes emails requested directly from the identity backend.';

comment on function private.may_change_access(uuid, uuid) is
  'Returns whether a session''s authentication is strong enough to remove entries from the list of '
  'private.account_access. Not granted to any role, so only security definer functions can call it.';

comment on function private.may_change_apps(jsonb) is
  'Returns whether change.actor may change apps. The actor must be an infrastructure admin, or null for the command '
  'line.';

comment on function private.may_review_authenticators(uuid, uuid) is
  'Returns whether a session may keep or remove authenticators without using one first. This is allowed if the account'
  ' need not have an authenticator, all its authenticators are additions that the owner has yet to confirm, and the '
  'session began with a password reset or recovery in the last ten minutes. Without this exception, an attacker who '
  'knew the password could lock the owner out by enrolling an authenticator.';

comment on function private.mfa_verification_attempt(jsonb) is
  'Hook that the identity backend calls after each check of a second factor, with { metadata, user_id, factor_id, '
  'factor_type, valid }. A rejection ends all of the user''s sessions, so the hook rejects only after ten failures of '
  'the user''s account in 15 minutes, counted across all addresses.';

comment on function private.mint_cross_app_token(bytea, jsonb, text) is
  'Stores a handoff token. facts are the result of private.required_mfa_proof, and proof is the web server''s '
  'signature over them. Returns false if the app has been disabled since the facts were read.';

comment on function private.model_version(text) is
  'Returns a digest of a model''s settings and routes. A change to the settings or routes includes the digest that the'
  ' admin saw, so that a concurrent change is detected.';

comment on function private.move_workspace(jsonb) is
  'Moves a workspace to another plan. Each credit account keeps its balance, and calls in progress are charged to the '
  'account with which they began. The change is { actor, workspace, seen (the plan that the admin saw), plan, reason, '
  'requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself (the actor''s personal workspace) | '
  'no_plan (the plan is unknown, or is already the workspace''s plan) | conflict (another admin changed the plan; last'
  ' is private.last_admin_action) }.';

comment on function private.open_openid_authorization(text, text, text[], jsonb) is
  'Describes an authorization request without changing anything. Returns {client: {name, displayName, enabled}, '
  'redirectAllowed, scopes, session: {authTime, consented} | null}, or null for an unknown client. session is null '
  'without claims, or if private.session_proof refuses the session of the claims.';

comment on function private.own_claims(jsonb) is
  'Returns the fields that Supabase Auth itself writes into metadata and into email identities.';

comment on function private.passkey_exists(text) is
  'Returns whether any account has a passkey with this credential id (hexadecimal). Supabase Auth does not distinguish'
  ' an unknown passkey from a wrong signature. Our server must, because a browser deletes a passkey that our server'
  ' reports as unknown.';

comment on function private.preview_costs_as_operator(uuid, uuid, jsonb) is
  'Returns the result of ai.describe_cost_file to the operator''s command line, or { outcome: app_not_linked }. Uses '
  'the platform''s book if workspace and app are null.';

comment on function private.preview_handoff(uuid) is
  'Returns the name and email that "Continue as …" shows before a token is redeemed. The web server passes the user id'
  ' from a proof that it has verified.';

comment on function private.preview_platform_costs(jsonb) is
  'Returns what importing a cost file into the platform''s book would change (ai.describe_cost_file).';

comment on function private.proof_status(private.mfa_proof) is
  'Returns good, over, mfa_required or unavailable. over means that the session or account ended, the policy changed, '
  'or the factor was removed. unavailable means that the policy can''t be read. For security definer functions; not '
  'granted to any role.';

comment on function private.proven_metadata(auth.users) is
  'Returns the metadata for a newly confirmed account: the data of an identity whose provider verified the email, and '
  'the fields that Supabase Auth writes itself.';

comment on function private.read_app(text, text[], integer) is
  'Returns an app as private.describe_app does, with a page of its workspaces (private.linked_workspaces) and its '
  'version. The version is the id of the app''s latest entry in the audit log.';

comment on function private.read_device_authorization(text, uuid) is
  'Returns a device authorization request, as a page or a phone shows it: {userCode, state: pending | approved | '
  'denied | expired, app, scopes, userAgent, address, place, createdAt, expiresAt}. Returns null for an unknown code. '
  'Callers must limit the number of guesses.';

comment on function private.read_model(text) is
  'Returns one model: its fields from private.list_catalogue_models, and its version (private.model_version), '
  'settings, routes in order, plans and workspaces. plans has all plans, whether each is granted the model, and the '
  'number of its workspaces, counted up to 1,001. workspaces has the first 100 workspaces that were granted the model '
  'separately from their plan.';

comment on function private.read_openid_client(text) is
  'Returns an OpenID client with its version, or null. A request to change the client must name the version that was '
  'read, so that a concurrent change is detected.';

comment on function private.read_openid_logout(text, text, uuid, uuid) is
  'Describes a sign-out that a client requests. Returns {displayName, redirectAllowed, ofSession}, or null for an '
  'unknown client. ofSession is true if sid identifies one of the client''s logins, and that login began in the given '
  'session.';

comment on function private.read_platform_cost_import(uuid) is
  'Returns ai.cost_import_receipt for the platform''s book. Used by the console.';

comment on function private.read_platform_invoice(uuid) is
  'Returns an invoice of the platform''s book in the format of ai.read_invoice.';

comment on function private.reconcile_platform(date) is
  'Returns the result of ai.reconciliation_page for the platform''s book and the month that contains the given date: {'
  ' outcome: listed, month, totals, clashes, records }.';

comment on function private.record_admin_action(jsonb, jsonb) is
  'Adds one line to the audit log in the transaction of the change. Arguments: change { actor, reason, requestId, ip }'
  ' and act { action, targetUserId, target, before, after }.';

comment on function private.record_authenticator_added() is
  'Records a newly verified factor. If the account already has another verified factor, rejects a factor that our '
  'server did not announce.';

comment on function private.record_passkey_added() is
  'Records a newly registered passkey. If the account has a verified factor, rejects a passkey that our server did not'
  ' announce.';

comment on function private.record_removal() is
  'Records the removal of an authenticator, a passkey or an identity. Skips accounts that have neither a confirmed '
  'email nor a sign-in.';

comment on function private.record_security_event(jsonb) is
  'Adds an event to an account''s activity, or completes an event that a trigger added. Takes { userId, kind, method, '
  'sessionId, ip, userAgent, device, place, details }. Returns { id, createdAt }, or null if the account doesn''t '
  'exist. Emails about the event can be sent from then on.';

comment on function private.record_sign_outs() is
  'Records the sign-outs that Supabase Auth performs. Adds one event per account and statement.';

comment on function private.record_unconfirmed_identity() is
  'Records a provider identity that was added to an account that has signed in before. The identity is confirmed if '
  'its verified email is the account''s own, because the backend links such an identity at a sign-in. Any other '
  'identity that our pages did not link is rejected if the account has a verified factor.';

comment on function private.recovery_actor_refusal(jsonb, text) is
  'Returns why the actor may not change an email''s recovery: forbidden if the actor is not an infrastructure admin, '
  'oneself if the email is the actor''s own. Returns null if the change is allowed. Records each refusal. Not granted '
  'to any role: only security definer functions call it.';

comment on function private.redeem_cross_app_token is
  'Redeems a handoff token once and opens sessions for its app. Returns {app, central?}, each {id, handoff, audience, '
  'user, factor, issuedAt, expiresAt}, or {refused: unauthenticated | token | unavailable}. central is absent if the '
  'app has no scope for the central API. facts is the content of the proof, whose signature the web server has '
  'checked.';

comment on function private.refresh_app_token is
  'Exchanges a refresh token for the next token pair. Returns {user, workspace, scopes, expiresAt} or {refused: '
  'unauthenticated | token | scope | workspace | unavailable}. Within 30 s, repeated use returns the same result; '
  'later reuse revokes the token family. The web server derives the next pair from the refresh token and a secret key,'
  ' so all callers pass the same pair.';

comment on function private.release_mfa_code(text, uuid, boolean) is
  'Releases the claim on a code that was not successfully verified. verified is false if the code was wrong. Any '
  'session can then claim the code again. verified is null if Supabase Auth did not respond. Only the same session can'
  ' then claim the code again.';

comment on function private.release_recovery_credential(uuid) is
  'Makes a consumed credential usable again. Only the request that consumed the credential may call this, and only if '
  'that request is certain to have created no session. After an earlier use, only the same browser can use the '
  'credential.';

comment on function private.remove_unproven_password(text, text) is
  'Removes the password of an unconfirmed account before a mailed link confirms the account. Otherwise, once the '
  'email''s owner confirms the account, the person who signed up with the email could sign in with that password.';

comment on function private.replace_signing_key(text, jsonb, text, text, text) is
  'Adds a key that signs from now on. `replaces` names the current key, which the caller could not decrypt. Null adds '
  'the first key. Earlier keys stay published for one day. Returns false if another caller has added a key first.';

comment on function private.require_password_replacement(uuid, uuid) is
  'Restricts a session to replacing its account''s password. The restriction ends when the password changes. Also '
  'deletes the rows of ended sessions.';

comment on function private.required_mfa_proof(jsonb, text, integer) is
  'Returns the proofs of the session with the given verified claims. The web server signs the result. Returns {user, '
  'target, targetId, session, factor, secondFactorAt, primaryAt, generation, validUntil, issuedAt, expiresAt} or '
  '{refused: unauthenticated | mfa_required | unavailable | not_found}. secondFactorAt and primaryAt are in seconds '
  'since 1970; validUntil, issuedAt and expiresAt are timestamps. If the proof depends on a mobile approval, '
  'validUntil is when the approval expires; otherwise it is null.';

comment on function private.reseal_signing_key(text, text, text, text) is
  'Stores a private key that was encrypted again with the current secret. Returns false if another caller has already '
  'replaced the stored key.';

comment on function private.revoke_app_credential(text, bytea, bytea) is
  'Revokes an app session, or an access or refresh token for the gateway. Also revokes all other credentials that the '
  'app received through the same handoff. Does nothing if the token does not belong to the app (RFC 7009). Returns '
  'false if the app did not authenticate.';

comment on function private.satisfies_required_mfa(jsonb, jsonb, boolean, boolean, bigint, bigint) is
  'Returns whether the given facts satisfy required MFA. Reads no tables, so that tests can call it with test vectors '
  'alone. approval_second is null if no approval is bound to the session.';

comment on function private.save_model(jsonb) is
  'Edits a model, or adds a disabled model if version is null. The change is { actor, model, version '
  '(private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, voices, reason, '
  'requestId, ip }. A new model also has kind. An edit also has isDefault and defaultOfKind. defaultOfKind is the id '
  'of the default model that the admin saw, or null. Returns {} or { refused: forbidden | not_found | id_taken | '
  'invalid | default_changed | conflict (with last) }.';

comment on function private.search_accounts(text, integer) is
  'Returns the accounts whose id or full email equals the search term. If there are none, returns the accounts whose '
  'email or name contains the term. Each account is returned as [private.describe_account].';

comment on function private.serialize_account_deletions() is
  'Makes account deletions wait for each other before they lock any row. Otherwise two deletions could deadlock, '
  'because the rows of each account may refer to the other account, even in workspaces that one of them has left.';

comment on function private.session_second_factor(jsonb) is
  'Returns { factorId, second } if the session reached AAL2 with its own second factor. second is the Unix time of the'
  ' proof, in seconds. Returns null for any other session.';

comment on function private.session_used_method(uuid, text) is
  'Returns whether a session signed in with the given method of Supabase Auth. Not granted to any role, so only '
  'security definer functions can call it.';

comment on function private.set_model_enabled(jsonb) is
  'Enables a model for callers with a plan that grants it, or disables it for all callers. The change is { actor, '
  'model, enabled, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict }. conflict '
  'means that there is nothing to change. It comes with last, the last admin action on the model.';

comment on function private.set_session_sign_in_time(uuid, timestamptz) is
  'Sets the sign-in time of a session that our server created from an earlier sign-in. Tokens that are issued for the '
  'session afterwards carry this time.';

comment on function private.sign_in_account(jsonb) is
  'Adds a sign-in to a browser''s accounts and makes the account active. Takes { deviceId, secret, nextHash, '
  'secondNextHash (hex), userId, sessionId, sealed, keyId, tag, inPlaceOf }. Creates the device if secret is null, and'
  ' otherwise gives the device a new secret. If the browser already has the account, replaces its session and ends the'
  ' old session. If inPlaceOf is given, the new session continues that session. The account then does not become '
  'active if the browser has switched to another account. Returns { status: kept | unknown | full | over, successor }.'
  ' The status over means that the browser no longer has session inPlaceOf. successor is 1 if nextHash is now the hash'
  ' of the device''s secret, or 2 if secondNextHash is.';

comment on function private.start_over() is
  'Resets an account to the state of a new account when its email is confirmed for the first time. Removes everything '
  'that was added earlier: sessions, passkeys, authenticators, unproven identities, a pending email change, app '
  'sessions and keys. Resets the profile and replaces used workspaces. Removes the password only if someone had signed'
  ' in to the account before the confirmation.';

do $guard$
begin
  if to_regprocedure('private.studio_refusal(bytea, uuid)') is not null then
    comment on function private.studio_refusal(bytea, uuid) is
      'Returns why a satellite''s session may not read a workspace''s AI Studio. Returns null if it may. Called only by '
      'definer functions; not granted to any role.';
  end if;
end
$guard$;

comment on function private.sweep_account_devices() is
  'Ends sessions that a browser has not used for 30 days, and sessions of sign-ins that the browser never used. Removes '
  'accounts from a vault after 90 days. Deletes devices that have expired or hold no account. Returns the number of '
  'deleted devices.';

comment on function private.sweep_login_challenges(integer) is
  'Deletes up to at_most challenges that expired more than an hour ago, except mobile approvals that are still valid. '
  'Returns the number of deleted challenges, or 0 while another sweep runs.';

comment on function private.sweep_oauth_attempts(integer) is
  'Deletes up to at_most expired attempts, and up to at_most identities of links that were never completed. Returns '
  'the number of deleted rows, or 0 if another sweep is running.';

comment on function private.take_additions(uuid, text, text[]) is
  'Adds sign-ins to a browser''s accounts, given the secrets of the sign-ins. The account of the newest sign-in '
  'becomes active. If the browser already had an account, its earlier session ends. Returns { status, secret }: secret'
  ' is the device secret derived from the presented secrets, and status is that secret''s status '
  '(private.device_secret_status). Adds accounts only if the status is current. Idempotent: a repeated call returns '
  'the same result.';

comment on function private.user_workspaces(uuid) is
  'Returns a user''s workspaces. Callers must have derived the user from a credential, because this function does not '
  'verify the user id. For the same reason, it is not granted to any role.';

comment on function private.uuid_or_null(text) is
  'Converts a claim to a UUID. Returns null for a claim that is not a UUID, so that it matches no row and raises no '
  'error.';

comment on function private.verify_override_password(jsonb) is
  'Verifies a password under an override. Takes { email, password, ip, userAgent, requestId }. Returns { outcome: '
  'proven, overrideId, userId, banned, confirmed } or { outcome: none | wrong | limited | oneself | unconfirmed }. '
  'none means that no active override allows normal login. oneself means that the account created the override. '
  'unconfirmed means that the account is newer than the override and its email was never confirmed. Records every '
  'outcome except none, without the password.';

comment on function private.write_required_mfa_policy(auth.users, jsonb) is
  'Writes an account''s MFA policy and returns it. Applies changes (required, recovery, signInAgain), increments the '
  'generation, and moves the boundary forward to the current second, so that earlier proofs no longer count. '
  'signInAgain also moves the boundary of primary methods. The caller must hold the account''s row for update. Not '
  'granted to any role.';

comment on function public.accept_workspace_invitation(text) is
  'Accepts the open invitation with this token. The invitation must have been sent to the caller''s confirmed email. '
  'Returns the workspace''s id. Raises PT404 if the caller has no such invitation.';

do $guard$
begin
  if to_regprocedure('public.required_mfa_enforcement_version()') is not null then
    comment on function public.required_mfa_enforcement_version() is
      'Returns 1 if required MFA is fully enforced, otherwise 0. Checks the trigger that preserves policies, the function '
      'account_required_mfa_satisfied() with its privileges, and the policy on every table. Accounts'' MFA policies can be'
      ' changed only while this function returns 1.';
  end if;
end
$guard$;

comment on trigger audit_change on public.workspace_invitations is
  'Shows the workspace''s owners which invitations were sent, accepted or withdrawn.';

comment on trigger audit_change on public.workspace_members is
  'Shows the workspace''s owners which members joined, left or changed roles.';

comment on trigger audit_change on public.workspace_roles is
  'Shows the workspace''s owners which roles were changed or deleted, and how their permissions changed.';

comment on trigger audit_change on public.workspaces is
  'Logs when a workspace is created, deleted, renamed or given another plan.';

comment on trigger audit_definition on public.workspace_roles is
  'Shows owners which roles were created, who created them, and what each role allows.';

comment on trigger close_orphaned_workspaces on public.profiles is
  'Runs before a profile is deleted, while the person''s memberships still exist.';

comment on trigger create_workspace_defaults on public.workspaces is
  'Gives every new workspace its roles, because each member needs a role.';

comment on trigger has_one_owner on ai.credit_accounts is
  'Runs when an account is inserted or its owner changes, but not when its balance or reservation changes.';

comment on trigger limit_invitations on public.workspace_invitations is
  'Limits the open invitations of a workspace, because pages read all of them at once.';

comment on trigger limit_inviter on public.workspace_invitations is
  'Limits each person''s invitations, to prevent bulk email to strangers.';

comment on trigger limit_roles on public.workspace_roles is
  'Limits the number of roles, because pages read all roles of a workspace at once.';

comment on trigger queue_revoked_login on private.app_sessions is
  'Queues a logout notice for the app. If the app ended the login itself, private.withdraw_logout removes the notice.';

comment on trigger queue_revoked_login on private.openid_grants is
  'Notifies the client when a login is revoked. If the client ended the login itself, private.withdraw_logout removes '
  'the notice.';

comment on trigger record_usage_addition on ai.runs is
  'Fires when an operator inserts a run by hand. Runs from our own code begin at the current time, so the trigger does'
  ' not fire for them. The condition is short because Postgres reads the condition again for each statement.';

comment on trigger record_usage_change on ai.runs is
  'Fires when a run of a finished day is updated, for example when the run is settled.';

comment on trigger record_usage_deletion on ai.runs is
  'Fires when an operator deletes a run of a finished day by hand. Our own code never deletes runs.';

comment on trigger reject_cost_import_truncate on ai.cost_imports is
  'Rejects TRUNCATE for every role, including the table''s owner.';

comment on trigger reject_incomplete_ledger_entry on ai.credit_ledger is
  'Replaces a check constraint. Does not run for entries with both run_id and run_created_at, because those entries '
  'are always complete.';

comment on trigger reject_incomplete_settlement on ai.runs is
  'Runs the check only if settled_at or usage_source is null. A settlement always sets both columns.';

do $guard$
begin
  if to_regclass('ai.external_provider_invoices') is not null then
    comment on trigger reject_invoice_truncate on ai.external_provider_invoices is
      'Prevents every role, including the table''s owner, from truncating the table.';
  end if;
end
$guard$;

comment on trigger reject_invoice_truncate on ai.platform_provider_invoices is
  'Prevents every role, including the table''s owner, from truncating the table.';

comment on trigger reject_reference_change on ai.credit_references is
  'Credit references are append-only, like the ledger. A used reference can''t be used again.';

comment on trigger replace_invitation on public.workspace_invitations is
  'Leaves only the newest invitation link valid for each workspace and email address.';

comment on trigger revoke_keys_of_connection on ai.agent_connections is
  'Without this trigger, deleting a connection would turn its keys into ordinary keys.';

comment on column ai.model_routes.tier_multipliers is
  'Multiples of the default prices by service tier, such as {"priority": 2}. Tiers that have prices of their own '
  'have rows in ai.model_prices.';

comment on column ai.model_routes.trusts_stated_cost is
  'If true, the cost of a run is the cost that the provider states in its answer.';

comment on column ai.model_prices.service_tier is
  'The service tier that the provider''s answer states; default if it states none.';

comment on column ai.model_prices.cache_write_usd_per_million is
  'The price of writing input to a cache. If null, cache writes cost the input price.';

comment on column ai.model_prices.cache_write_1h_usd_per_million is
  'The price of writing input to a cache for one hour. If null, these writes cost the price of other cache writes.';

comment on column ai.model_prices.image_input_usd_per_million is
  'The price of image input. If null, image input costs the input price.';

comment on column ai.model_prices.request_fee_usd is
  'The fee for each billable action that the provider counts in a call, such as a web search. Null if there is no '
  'fee.';

comment on column ai.runs.marks is
  'Reasons for an operator to check the run: above_context_window, above_output_limit, implausible, unpriced_tier.';

comment on column ai.runs.billing_name is
  'The company that bills the run''s provider call. Used for reconciliation, together with the account.';

comment on column ai.runs.cost_so_far_usd is
  'The cost of an open run''s provider calls at its latest heartbeat. Charged if the function that runs it crashes.';

comment on type ai.credential is
  'What a caller presents: the SHA-256 of a key or of an app''s token, or the verified claims of a session.';

comment on type ai.run_request is
  'A call as the gateway describes it to ai.begin_run. Functions that only read a credential receive some of the '
  'fields.';

comment on type ai.route_offer is
  'A model with its routes and prices, and the maximum tokens and cost of a call; or the reason why there is none.';

comment on type ai.priced_call is
  'A call with its caller, offer and paying account, before anything is locked; or the reason why it is refused.';

comment on type ai.lock_list is
  'The rows and locks that ai.lock_rows takes. Idempotency keys are advisory locks of the listed workspaces. The '
  'listed keys are those whose last use is updated.';

comment on type ai.reservation is 'What a provider call has reserved, or the limit that refused it.';

comment on type ai.run_outcome is
  'How a run ended, as the gateway reports it, with the usage and cost of all its provider calls together.';

comment on type ai.token_use is 'The tokens of a call: input by class, and output.';

comment on type ai.run_report is 'A locked run, and what the gateway reported about it.';

comment on type ai.closed_run is
  'A run in its closed state, and the resulting changes: the credits and cost that become due, what its reservation'
  ' returns to the account and the budgets, and whether its idempotency key is free again.';
