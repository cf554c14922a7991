-- Separate, after the functions: calls wait for it to read ai.rate_windows, a small table.
set lock_timeout = '500ms';

alter domain ai.rate_scope validate constraint rate_scope_check;
