set lock_timeout = '500ms';

alter type ai.run_request add attribute fee_requests bigint;
alter type ai.run_request add attribute session_label text;
