-- What pages of the console always read together.

-- Returns { models, states, limits, usage } for the page about providers. models is the page after the given model,
-- states are those of the routes, and usage covers the days.
create or replace function private.read_providers_state(
  after text[], page_size integer, first_day date, last_day date
)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'models', private.list_provider_routes(after, page_size),
    'states', private.list_route_states(),
    'limits', private.list_provider_limits(),
    'usage', private.list_provider_usage(first_day, last_day)
  )
$$;

-- Until 0.6.0, for servers of 0.4.0: returns what their page about providers reads.
create or replace function private.read_providers_page(after text[], page_size integer, first_day date, last_day date)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'models', private.list_provider_routes(after, page_size),
    'failing', private.list_failing_models(),
    'health', private.list_provider_health(),
    'skipped', private.list_skipped_routes(),
    'limits', private.list_provider_limits(),
    'usage', private.list_provider_usage(first_day, last_day)
  )
$$;

-- Returns { accounts, waiting } for the console's first page: the accounts that match the term, or the page of all
-- accounts before the given one if the term is empty, and how many workspaces wait for approval. Until 0.6.0: only
-- servers of release 0.4.0 call it.
create or replace function private.read_accounts_page(term text, before jsonb, page_size integer) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'accounts', case
      when term = '' then private.list_accounts(before, page_size)
      else private.search_accounts(term, page_size)
    end,
    'waiting', private.count_approval_requests()
  )
$$;

-- Returns { workspaces, waiting }: the workspaces that match the term, and how many wait for approval. Until 0.6.0: only
-- servers of release 0.4.0 call it.
create or replace function private.read_workspaces_page(term text, page_size integer) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'workspaces', private.search_workspaces(term, page_size), 'waiting', private.count_approval_requests()
  )
$$;

-- Returns { requests, count }: a page of the requests for approval, and how many there are.
create or replace function private.read_approvals_page(after jsonb, page_size integer) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'requests', private.list_approval_requests(after, page_size), 'count', private.count_approval_requests()
  )
$$;

-- Returns { apps, clients }: a page of the apps and a page of the OpenID clients whose names contain the term.
create or replace function private.read_apps_page(term text, after_app text, after_client text, page_size integer)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'apps', private.list_apps(term, after_app, page_size),
    'clients', private.list_openid_clients(term, after_client, page_size)
  )
$$;

-- Returns { account, policy }, both null if the account doesn't exist.
create or replace function private.read_subject(subject_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'account', private.account_overview(subject_id), 'policy', private.required_mfa_of(subject_id)
  )
$$;

-- Returns the result of read_subject with { timeline, blocks }: a page of the account's timeline, and the active blocks
-- of its recent addresses.
create or replace function private.read_account_page(
  subject_id uuid, timeline_before jsonb, timeline_page_size integer, block_page_size integer
)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.read_subject(subject_id) || jsonb_build_object(
    'timeline', private.account_timeline(subject_id, timeline_before, timeline_page_size),
    'blocks', private.list_address_blocks(subject_id => read_account_page.subject_id, page_size => block_page_size)
  )
$$;
