set lock_timeout = '500ms';

alter table ai.totals validate constraint totals_figure_check;
