-- Lets the services log in. Runs once, after bootstrap.sql, when the database is created.
\getenv owner DB_OWNER_PASSWORD
\getenv auth DB_AUTH_PASSWORD
\getenv api DB_API_PASSWORD
\getenv gateway DB_GATEWAY_PASSWORD
alter role postgres password :'owner';
alter role supabase_auth_admin password :'auth';
alter role authenticator password :'api';
-- The migrations find this role and give it its rights.
create role gateway login password :'gateway';
grant gateway to postgres with admin option;
