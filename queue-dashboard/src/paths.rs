//! The addresses of pages that contain names.

use queue_core::JobAddress;

/// The path of the page of a job, relative to the base.
pub(crate) fn job_path(queue: &str, id: &str) -> String {
    format!("/jobs/{}/{}", encoded_part(queue), encoded_part(id))
}

/// The same of an address.
pub(crate) fn path_of(job: &JobAddress) -> String {
    job_path(&job.queue, &job.id.to_string())
}

/// A name as a part of a path. A browser resolves `.` and `..` as folders, even if they are
/// percent-encoded. They are therefore prefixed with a character that no name has.
fn encoded_part(name: &str) -> String {
    if matches!(name, "." | "..") { format!("~{name}") } else { name.replace('%', "%25") }
}

/// The name in a part of a path that was percent-decoded.
pub(crate) fn name_in(part: &str) -> &str {
    part.strip_prefix('~').unwrap_or(part)
}

/// The rebuilt path of the page of a job, without its first slash, if this is such a path.
pub(crate) fn normalized_job_path(queue: &str, id: &str) -> Option<String> {
    let read = |part: &str| (!matches!(part, "." | "..")).then(|| name_in(part).replace("%25", "%"));
    let job: JobAddress = format!("{}/{}", read(queue)?, read(id)?).parse().ok()?;
    Some(path_of(&job).trim_start_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_job_leads_to_it_and_to_no_other() {
        for (id, path) in [("a-1", "/jobs/mail/a-1"), ("a%41", "/jobs/mail/a%2541"), (".", "/jobs/mail/~."), ("..", "/jobs/mail/~..")] {
            assert_eq!(job_path("mail", id), path);
            let part = path.rsplit('/').next().unwrap();
            assert_eq!(name_in(&part.replace("%25", "%")), id);
            assert_eq!(normalized_job_path("mail", part).as_deref(), path.strip_prefix('/'));
        }
        for (queue, id) in [("..", "x"), ("mail", ".."), ("", "x"), ("mail", ""), ("mail", "a b"), ("a/b", "x"), ("mail", "a\r\nb")] {
            assert_eq!(normalized_job_path(queue, id), None, "{queue} {id}");
        }
        assert_eq!(normalized_job_path("mail", "%2e%2e").as_deref(), Some("jobs/mail/%252e%252e"));
    }
}
